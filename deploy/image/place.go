package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// write writes an OCI layout with a program's images to a folder of its name under out, in
// place of one that is there. Both tools that go by tags and containerd find the image in it.
func (p program) write(out, tag string, index v1.ImageIndex) error {
	folder := filepath.Join(out, p.name)
	if err := clear(folder); err != nil {
		return fmt.Errorf("image: write %s: %w", folder, err)
	}
	l, err := layout.Write(folder, empty.Index)
	if err == nil {
		err = l.AppendIndex(index, layout.WithAnnotations(map[string]string{
			"org.opencontainers.image.ref.name": tag,
			"io.containerd.image.name":          "docker.io/library/" + p.name + ":" + tag,
		}))
	}
	if err != nil {
		return fmt.Errorf("image: write %s: %w", folder, err)
	}
	return nil
}

// clear removes a folder if it is an OCI layout, and is content if there is none.
func clear(folder string) error {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := layout.FromPath(folder); err != nil {
		return fmt.Errorf("it is there, and no OCI layout: %w", err)
	}
	return os.RemoveAll(folder)
}

// send sends a program's images to a registry, as who the user is there (~/.docker/config.json),
// and returns under what name.
func (p program) send(ctx context.Context, prefix, tag string, index v1.ImageIndex) (string, error) {
	ref, err := name.NewTag(prefix+"/"+p.name+":"+tag, name.StrictValidation)
	if err != nil {
		return "", fmt.Errorf("image: send %s: %w", p.name, err)
	}
	if err := remote.WriteIndex(ref, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return "", fmt.Errorf("image: send %s: %w", ref, err)
	}
	return ref.Name(), nil
}
