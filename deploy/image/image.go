package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is who the program runs as: nobody in particular, and Argo CD's own number.
const user = "999:999"

// index returns the images of a program for some architectures as one. Its binaries are in folder, below
// their architectures. It says how large they are.
func (p program) index(folder, tag string, r release, wanted []string, said io.Writer) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range wanted {
		binary, err := os.ReadFile(filepath.Join(folder, architecture, p.name))
		if err != nil {
			return nil, fmt.Errorf("image: read %s: %w", p.name, err)
		}
		image, err := p.image(binary, architecture, r)
		if err != nil {
			return nil, fmt.Errorf("image: make that of %s: %w", p.name, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
		fmt.Fprintf(said, "%s:%s %s linux/%s: %.1f MB\n", p.name, tag, r.version, architecture, float64(len(binary))/1e6)
	}
	return index, nil
}

// image returns the image of a program for one architecture.
func (p program) image(binary []byte, architecture string, r release) (v1.Image, error) {
	layer, err := layerOf(p.name, binary)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: r.made}, CreatedBy: "go build ./cli/" + p.name},
	})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", architecture
	file.Created = v1.Time{Time: r.made}
	file.Config = v1.Config{
		User:       user,
		WorkingDir: "/",
		Env:        []string{"PATH=/"},
		Entrypoint: []string{"/" + p.name},
		Labels:     p.labels(r),
	}
	return mutate.ConfigFile(image, file)
}

// labels are what is said of an image, by the names that everybody gives it.
func (p program) labels(r release) map[string]string {
	out := map[string]string{
		"org.opencontainers.image.title":       p.name,
		"org.opencontainers.image.description": p.does,
		"org.opencontainers.image.source":      "https://github.com/argocd-fabric/argocd-agent",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.version,
	}
	if r.commit != "" {
		out["org.opencontainers.image.revision"] = r.commit
	}
	return out
}

// layerOf returns a layer with one file, which everybody may run and nobody may change.
func layerOf(name string, binary []byte) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o555, Size: int64(len(binary)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return nil, err
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
