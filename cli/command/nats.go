package command

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/cli/shell"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
	"github.com/argocd-fabric/argocd-agent/transport/natslink"
)

// natsFlags are those of either end of the transport over NATS.
func natsFlags(f shell.Flags) []cli.Flag {
	return []cli.Flag{
		f.String("nats-store-dir", "", "/var/lib/argocd-agent", "the `folder` in which messages are kept"),
		f.Int("nats-quota", "", natslink.DefaultQuota>>20, "how many `MiB` the messages of one agent may take, in each direction"),
		f.Int("nats-max-store", "", 0, "how many `MiB` all messages may take; 0 is no bound beyond the quotas"),
		f.String("nats-monitor-listen", "", "", "a loopback `address` for the NATS server's own monitoring; empty is off"),
	}
}

func natsCommon(c *cli.Context, log *zap.Logger) (natslink.Common, error) {
	for _, flag := range []string{"nats-quota", "nats-max-store"} {
		if v := c.Int(flag); v < 0 {
			return natslink.Common{}, &shell.UsageError{Where: "--" + flag, What: fmt.Sprintf("%d is below zero", v), Advice: "write a number of MiB"}
		}
	}
	dir, err := shell.Needed(c, "nats-store-dir", "name a folder that the program can write to")
	if err != nil {
		return natslink.Common{}, err
	}
	monitor, err := shell.Address(c, "nats-monitor-listen")
	return natslink.Common{
		StoreDir:      dir,
		Quota:         int64(c.Int("nats-quota")) << 20,
		MaxStore:      int64(c.Int("nats-max-store")) << 20,
		MonitorListen: monitor,
		Presence:      transport.Presence{Version: version(), Oldest: wire.Oldest, Newest: wire.Newest},
		Logger:        log,
	}, err
}

func natsHub(c *cli.Context, s secrets, log *zap.Logger) (transport.Hub, error) {
	common, err := natsCommon(c, log)
	if err != nil {
		return nil, err
	}
	listen, err := shell.Address(c, "nats-leaf-listen")
	if err != nil {
		return nil, err
	}
	files, done, err := principalTLS().find(c, s)
	if err != nil {
		return nil, err
	}
	defer done()
	tls, err := files.Server(time.Now())
	if err != nil {
		return nil, err
	}
	return natslink.NewHub(natslink.HubConfig{Common: common, Listen: listen, TLS: tls, Authenticate: identity.SubjectName})
}

func natsLeaf(c *cli.Context, s secrets, log *zap.Logger) (string, transport.Dialer, error) {
	common, err := natsCommon(c, log)
	if err != nil {
		return "", nil, err
	}
	host, err := shell.Needed(c, "server-address", "say where the principal is")
	if err != nil {
		return "", nil, err
	}
	port, err := shell.Port(c, "server-port")
	if err != nil {
		return "", nil, err
	}
	files, done, err := agentTLS().find(c, s)
	if err != nil {
		return "", nil, err
	}
	defer done()
	tls, err := files.Client(time.Now())
	if err != nil {
		return "", nil, err
	}
	name := tls.Certificates[0].Leaf.Subject.CommonName
	if want := c.String("agent-name"); want != "" && want != name {
		return "", nil, &shell.UsageError{Where: "--agent-name", What: fmt.Sprintf("%q is not the name in the certificate, %q", want, name), Advice: "leave it out, or use that agent's certificate"}
	}
	d, err := natslink.NewLeaf(natslink.LeafConfig{Common: common, Agent: name, Connect: net.JoinHostPort(host, strconv.Itoa(port)), TLS: tls})
	return name, d, err
}
