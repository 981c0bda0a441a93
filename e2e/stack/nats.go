package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
	version, err := goHere(ctx, source, "list", "-m", "-f", "{{.Version}}", natsModule)
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
	if _, err := goHere(ctx, source, "build", "-o", path+".new", natsModule); err != nil {
		return "", err
	}
	fmt.Fprintf(out, "stack: built %s in %.0f s\n", name, time.Since(start).Seconds())
	return path, os.Rename(path+".new", path)
}

// goHere runs the go command in the product's module, of which dir is a directory.
func goHere(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", args[0], err, lastLines(stderr.String(), 10))
	}
	return string(stdout), nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
