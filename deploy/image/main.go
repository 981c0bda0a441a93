// Command image makes the images of the module's programs, from nothing but the programs:
//
//	go run . -out ../../dist
//
// writes an OCI layout for each, dist/argocd-agent and dist/argocd-agentctl, for linux/amd64
// and linux/arm64, or for what -platform says. With -push registry.example.com/team they are sent to a
// registry as well.
//
// There are two images, since the two programs have different work and different secrets: one runs
// beside each Argo CD, the other makes certificates, tokens and registrations, and is what a
// cluster must not have at hand that does not need it.
//
// An image holds one static binary, and so no shell, no library and nothing that ages or has to be
// patched. There are no CA certificates in it either: principals and agents trust the CA of
// their installation alone. Where one has to trust the system's, behind a web proxy with TLS of
// its own, mount a bundle and name it by SSL_CERT_FILE.
//
// One commit and one version of Go make the same bytes, in whatever folder and at whatever time.
//
// It is a module of its own, so that what reads and writes images is no dependency of the
// programs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// errUsage is what a command line is that was not understood, and has been told so.
var errUsage = errors.New("image: see -help")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return
	case errors.Is(err, errUsage):
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// options are what a command line says.
type options struct {
	source, out, version, tag, push string
	architectures                   []string
}

// parse reads a command line.
func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.source, "source", "../..", "the `folder` with the checkout")
	flags.StringVar(&o.out, "out", "../../dist", "the `folder` to write to, in which each image has a folder of its own")
	flags.StringVar(&o.version, "version", "", "the `version` that the programs say they are; empty is what git says of the checkout")
	flags.StringVar(&o.tag, "tag", "dev", "the `tag` of the images")
	flags.StringVar(&o.push, "push", "", "a registry, and a path there, as `registry.example.com/team`, to which the images are sent too")
	wanted := flags.String("platform", strings.Join(architectures, ","), "the `architectures` of linux that they are made for, with a comma between them")
	if err := flags.Parse(args); err != nil {
		return o, errors.Join(errUsage, err)
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "image: argument %q is not expected; see -help\n", flags.Arg(0))
		return o, errUsage
	}
	for one := range strings.SplitSeq(*wanted, ",") {
		if !slices.Contains(architectures, one) || slices.Contains(o.architectures, one) {
			fmt.Fprintf(stderr, "image: -platform: %q is none of %v, or there twice\n", one, architectures)
			return o, errUsage
		}
		o.architectures = append(o.architectures, one)
	}
	return o, nil
}

// run builds all programs for one architecture after the other, and makes the images of each.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	r, err := releaseOf(ctx, o.source, o.version)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "image")
	if err != nil {
		return fmt.Errorf("image: build: %w", err)
	}
	defer os.RemoveAll(folder)
	for _, architecture := range o.architectures {
		if err := build(ctx, o.source, architecture, r.version, filepath.Join(folder, architecture)); err != nil {
			return err
		}
	}
	for _, p := range programs {
		index, err := p.index(folder, o.tag, r, o.architectures, stdout)
		if err != nil {
			return err
		}
		if err := p.write(o.out, o.tag, index); err != nil {
			return err
		}
		if o.push == "" {
			continue
		}
		name, err := p.send(ctx, o.push, o.tag, index)
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, "sent", name)
	}
	return nil
}
