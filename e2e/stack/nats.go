package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const natsModule = "github.com/nats-io/nats-server/v2"

// NATSServer returns the path of the program nats-server, of the version that the product embeds,
// after it has built it if the user's cache directory lacks it. It does without a [Build] of the other
// programs, and takes seconds where the product itself has been built.
func NATSServer(ctx context.Context, out io.Writer) (string, error) {
	path, err := buildNATS(ctx, out)
	if err != nil {
		return "", fmt.Errorf("stack: build nats-server: %w", err)
	}
	return path, nil
}

func buildNATS(ctx context.Context, out io.Writer) (path string, err error) {
	source, err := sourceDir()
	if err != nil {
		return "", err
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	version, err := goIn(ctx, source, nil, "list", "-m", "-f", "{{.Version}}", natsModule)
	if err != nil {
		return "", err
	}
	name := "nats-server-" + strings.TrimSpace(version)
	path = filepath.Join(cache, name)
	if isFile(path) {
		return path, nil
	}
	lock, err := lockFile(filepath.Join(cache, name+".lock"), true)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if isFile(path) { // another program built it meanwhile
		return path, nil
	}
	start := time.Now()
	fmt.Fprintf(out, "stack: building %s\n", name)
	// With the flags of the tests' own build, whose packages it shares.
	if _, err := goIn(ctx, source, nil, "build", "-o", path+".new", natsModule); err != nil {
		return "", err
	}
	fmt.Fprintf(out, "stack: built %s in %.0f s\n", name, time.Since(start).Seconds())
	return path, os.Rename(path+".new", path)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
