// Package blockfile is a blocklist in a YAML file, for hubs that have no cluster to keep it: who
// is blocked, an agent's name or a certificate's fingerprint, and why.
//
//	edge-7: it was sold
//	4f0c…: its key was found in a backup
package blockfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"
	"sigs.k8s.io/yaml"

	"github.com/argocd-fabric/argocd-agent/cli/livefile"
	"github.com/argocd-fabric/argocd-agent/transport/identity"
)

// A File is a file with a blocklist.
type File string

// Watch calls f with what is blocked, now and whenever the file has changed, until ctx is done.
// It is looked at twice a second. What of it cannot be read is in the log.
func (f File) Watch(ctx context.Context, log *zap.Logger, tell func(map[string]string)) error {
	file := livefile.File[map[string]string]{Path: string(f), Every: 500 * time.Millisecond, Parse: f.parse, Log: log}
	err := file.Follow(ctx, func(is map[string]string) error { tell(is); return nil })
	return fmt.Errorf("blockfile: %w", err)
}

// Blocked returns who is blocked, and why. A file that is not there is fs.ErrNotExist.
func (f File) Blocked(context.Context) (map[string]string, error) {
	is, err := livefile.File[map[string]string]{Path: string(f), Parse: f.parse}.Read()
	if err != nil {
		return nil, fmt.Errorf("blockfile: %w", err)
	}
	return is, nil
}

// Block changes who is blocked by change. The file is made if there is none.
func (f File) Block(ctx context.Context, change func(map[string]string) error) error {
	is, err := f.Blocked(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		is, err = map[string]string{}, nil
	}
	if err == nil {
		err = change(is)
	}
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(is)
	if err == nil {
		err = livefile.Replace(string(f), text)
	}
	if err != nil {
		return fmt.Errorf("blockfile: %w", err)
	}
	return nil
}

func (f File) parse(text []byte) (map[string]string, error) {
	var is map[string]string
	if err := yaml.UnmarshalStrict(text, &is); err != nil {
		return nil, fmt.Errorf("read %s: %w", string(f), err)
	}
	if is == nil { // as while it is being written: no word that nobody is blocked
		return nil, fmt.Errorf("read %s: there is nothing in it; write \"{}\" if nobody is blocked", string(f))
	}
	_, err := identity.NewBlocklist(is)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", string(f), err)
	}
	return is, nil
}
