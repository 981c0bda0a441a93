package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"flag"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/require"
)

const source = "../.."

// most is what a binary may be large.
const most = 60e6

// full has the test take every architecture, and make everything twice.
var full = flag.Bool("full", false, "all architectures, and the same bytes again")

// made makes the images in folder, and returns what was said.
func made(t *testing.T, folder string, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	require.NoError(t, run(t.Context(), append([]string{"-source", source, "-out", folder, "-version", "v1.2.3", "-tag", "rc"}, args...), &stdout, &stderr), stderr.String())
	t.Log(stdout.String())
	return stdout.String()
}

// TestImages makes the images as they are released, sends them to a registry, and holds
// what came out against what is promised of them. Made again they are the same. An architecture
// other than this machine's takes minutes to build for the first time.
func TestImages(t *testing.T) {
	host := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(host.Close)
	at := strings.TrimPrefix(host.URL, "http://") + "/team"
	folder, wanted := filepath.Join(t.TempDir(), "dist"), architectures[:1]
	if *full {
		wanted = architectures
	}
	platform := "-platform=" + strings.Join(wanted, ",")
	said := made(t, folder, "-push", at, platform)
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			index := indexIn(t, filepath.Join(folder, p.name), "rc")
			require.NoError(t, validate.Index(index))
			require.Contains(t, said, "sent "+at+"/"+p.name+":rc\n")
			sameAsSent(t, index, at+"/"+p.name+":rc")
			manifest, err := index.IndexManifest()
			require.NoError(t, err)
			require.Len(t, manifest.Manifests, len(wanted))
			for i, d := range manifest.Manifests {
				require.Equal(t, wanted[i], d.Platform.Architecture)
				image, err := index.Image(d.Digest)
				require.NoError(t, err)
				checkConfig(t, p, d.Platform.Architecture, image)
				checkBinary(t, p, d.Platform.Architecture, unpacked(t, image))
			}
		})
	}
	if !*full {
		return
	}
	before := contents(t, folder)
	made(t, folder, platform)
	require.True(t, maps.Equal(before, contents(t, folder)), "they are other bytes the second time")
}

// TestOnlyLayoutsAreReplaced holds that a folder that is something else stays.
func TestOnlyLayoutsAreReplaced(t *testing.T) {
	folder := t.TempDir()
	own := filepath.Join(folder, programs[0].name, "diary")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o755))
	require.NoError(t, os.WriteFile(own, []byte("Monday"), 0o600))
	require.ErrorContains(t, clear(filepath.Dir(own)), "no OCI layout")
	require.FileExists(t, own)
}

func TestMisuse(t *testing.T) {
	var stderr bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"-colour", "red"}, io.Discard, &stderr), errUsage)
	require.Contains(t, stderr.String(), "-colour")
	stderr.Reset()
	require.ErrorIs(t, run(t.Context(), []string{"now"}, io.Discard, &stderr), errUsage)
	require.Contains(t, stderr.String(), `argument "now" is not expected`)
	for _, wrong := range []string{"", "arm64,arm64", "amd64,vax"} {
		stderr.Reset()
		require.ErrorIs(t, run(t.Context(), []string{"-platform", wrong}, io.Discard, &stderr), errUsage)
		require.Contains(t, stderr.String(), "is none of [amd64 arm64]")
	}
	_, err := releaseOf(t.Context(), t.TempDir(), "")
	require.ErrorContains(t, err, "say it by -version")
	r, err := releaseOf(t.Context(), t.TempDir(), "v1")
	require.NoError(t, err)
	require.Equal(t, "1970", r.made.Format("2006"))
	require.NotContains(t, programs[0].labels(r), "org.opencontainers.image.revision")
}

func indexIn(t *testing.T, folder, tag string) v1.ImageIndex {
	root, err := layout.ImageIndexFromPath(folder)
	require.NoError(t, err)
	manifest, err := root.IndexManifest()
	require.NoError(t, err)
	require.Len(t, manifest.Manifests, 1)
	d := manifest.Manifests[0]
	require.Equal(t, tag, d.Annotations["org.opencontainers.image.ref.name"])
	require.Equal(t, "docker.io/library/"+filepath.Base(folder)+":"+tag, d.Annotations["io.containerd.image.name"])
	index, err := root.ImageIndex(d.Digest)
	require.NoError(t, err)
	return index
}

func sameAsSent(t *testing.T, index v1.ImageIndex, name string) {
	want, err := index.Digest()
	require.NoError(t, err)
	d, err := remote.Get(reference(t, name))
	require.NoError(t, err)
	require.Equal(t, want, d.Digest)
}

func checkConfig(t *testing.T, p program, architecture string, image v1.Image) {
	file, err := image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "linux/"+architecture, file.OS+"/"+file.Architecture)
	require.Equal(t, []string{"/" + p.name}, file.Config.Entrypoint)
	require.Empty(t, file.Config.Cmd)
	require.Equal(t, "999:999", file.Config.User)
	require.Equal(t, "v1.2.3", file.Config.Labels["org.opencontainers.image.version"])
	require.Len(t, file.RootFS.DiffIDs, 1)
}

// unpacked unpacks the only layer of an image, and returns the folder that is its root.
func unpacked(t *testing.T, image v1.Image) string {
	layers, err := image.Layers()
	require.NoError(t, err)
	require.Len(t, layers, 1)
	from, err := layers[0].Uncompressed()
	require.NoError(t, err)
	defer from.Close()
	dir := t.TempDir()
	archive := tar.NewReader(from)
	for {
		h, err := archive.Next()
		if err == io.EOF {
			return dir
		}
		require.NoError(t, err)
		require.Equal(t, int64(0o555), h.Mode)
		require.Zero(t, h.ModTime.Unix())
		to, err := os.OpenFile(filepath.Join(dir, h.Name), os.O_CREATE|os.O_WRONLY|os.O_EXCL, fs.FileMode(h.Mode))
		require.NoError(t, err)
		_, err = io.Copy(to, archive)
		require.NoError(t, err)
		require.NoError(t, to.Close())
	}
}

// checkBinary holds that all that is in root is a binary for an architecture, which needs
// nothing else, and that it works where it can run.
func checkBinary(t *testing.T, p program, architecture, root string) {
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the binary and nothing else")
	path := filepath.Join(root, p.name)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.LessOrEqual(t, float64(len(text)), most)
	here, err := filepath.Abs(source)
	require.NoError(t, err)
	require.NotContains(t, string(text), here, "where it was built is nobody's business, and would make it another elsewhere")

	binary, err := elf.NewFile(bytes.NewReader(text))
	require.NoError(t, err)
	require.Equal(t, map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[architecture], binary.Machine)
	needed, err := binary.ImportedLibraries()
	require.NoError(t, err)
	require.Empty(t, needed)
	for _, s := range binary.Progs {
		require.NotEqual(t, elf.PT_INTERP, s.Type, "it is static")
	}
	if architecture == "amd64" && p.name == "argocd-agent" {
		require.Contains(t, ran(t, root, "/"+p.name, "version"), "argocd-agent v1.2.3 go1.")
	}
}

// ran runs a program with root as its file system where this machine lets anybody have one
// of his own, and else from within root.
func ran(t *testing.T, root, program string, args ...string) string {
	alone := exec.CommandContext(t.Context(), program, args...)
	alone.Env, alone.Dir = []string{}, "/"
	alone.SysProcAttr = &syscall.SysProcAttr{
		Chroot:      root,
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := alone.CombinedOutput()
	if err == nil {
		return string(out)
	}
	t.Logf("not in a root of its own: %v", err)
	here := exec.CommandContext(t.Context(), filepath.Join(root, program), args...)
	here.Env, here.Dir = []string{}, root
	out, err = here.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// contents returns what is in the files below folder.
func contents(t *testing.T, folder string) map[string]string {
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, folder)] = string(text)
		return err
	}))
	require.NotEmpty(t, out)
	return out
}

func reference(t *testing.T, text string) name.Reference {
	ref, err := name.ParseReference(text)
	require.NoError(t, err)
	return ref
}
