package command

import (
	"context"
	"fmt"
	"io/fs"
	"os"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/proxy/token"
)

// tokenKey is the key in the Secret that has the keys of tokens.
const tokenKey = "jwt.key"

// tokenFlags say where the keys of tokens are by which Argo CD reaches the agents' clusters.
func tokenFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("jwt-key", "JWT_KEY_PATH", "", "a `file` with the key of the tokens by which Argo CD reaches the agents' clusters, see argocd-agentctl jwt"),
		f.String("jwt-secret-name", "", "argocd-agent-jwt", "the `name` of the Secret with that key, where no file is given"),
	}
}

// openTokens returns what keeps the keys of tokens, which may not be there yet; nil where there
// is neither a file nor a cluster.
func openTokens(c *cli.Context, k cluster, log *zap.Logger) (*token.Ring, error) {
	read := func(ctx context.Context) ([]byte, error) {
		data, err := k.secrets(ctx, c.String("jwt-secret-name"))
		if missing(err) {
			return nil, fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		}
		return data[tokenKey], err
	}
	if file := c.String("jwt-key"); file != "" {
		text, err := os.ReadFile(file)
		if err == nil {
			_, err = token.ParseKeys(text)
		}
		if err != nil {
			return nil, &shell.UsageError{Where: "--jwt-key", What: err.Error(), Advice: "name a file as argocd-agentctl jwt create-key --dir writes it"}
		}
		read = func(context.Context) ([]byte, error) { return os.ReadFile(file) }
	} else if k.home == nil {
		return nil, nil
	}
	return token.NewRing(token.RingConfig{Read: read, Every: renewEvery, Log: log})
}
