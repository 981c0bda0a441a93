// Command mutate shows that the tests of the protocol's core can fail. Each patch in
// sync/engine/testdata/mutants undoes one rule; mutate runs the tests with it, leaving the
// tree as it is, and prints which test and which seed found it out. It exits with 1 if a
// mutant lives.
//
//	go run ./e2e/mutate [-sample N] [-seeds N] [name ...]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	mutants   = "sync/engine/testdata/mutants"
	schedules = "^(TestConvergence|TestDisasters|TestObserving)$" // the tests that take long
)

func main() {
	sample := flag.Int("sample", 0, "how many mutants to try, chosen at random; 0 is all")
	seeds := flag.Int("seeds", 300, "schedules that each mutant has to survive")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	lived, err := run(ctx, *sample, *seeds, flag.Args())
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	case lived > 0:
		fmt.Printf("%d mutants live\n", lived)
		os.Exit(1)
	}
}

func run(ctx context.Context, sample, seeds int, names []string) (lived int, err error) {
	patches, err := filepath.Glob(filepath.Join(mutants, "*.patch"))
	if err != nil || len(patches) == 0 {
		return 0, errors.Join(err, fmt.Errorf("no patches in %s: run it from the top of a checkout", mutants))
	}
	if len(names) > 0 {
		patches = slices.DeleteFunc(patches, func(p string) bool { return !slices.Contains(names, name(p)) })
	}
	if sample > 0 && sample < len(patches) {
		rand.Shuffle(len(patches), func(i, j int) { patches[i], patches[j] = patches[j], patches[i] })
		patches = patches[:sample]
		slices.Sort(patches)
	}
	for _, p := range patches {
		verdict, killed, err := try(ctx, p, seeds)
		if err != nil {
			return lived, fmt.Errorf("%s: %w", p, err)
		}
		if !killed {
			lived++
		}
		fmt.Printf("%-28s %s\n", name(p), verdict)
	}
	return lived, nil
}

func name(patch string) string { return strings.TrimSuffix(filepath.Base(patch), ".patch") }

// try runs the tests with one patch laid over the tree.
func try(ctx context.Context, patch string, seeds int) (verdict string, killed bool, err error) {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return "", false, err
	}
	defer os.RemoveAll(dir)
	overlay, err := lay(ctx, patch, dir)
	if err != nil {
		return "", false, err
	}
	for _, tests := range [][]string{ // the quickest first
		{"./sync/resource"},
		{"./sync/engine", "-skip", schedules},
		{"./sync/engine", "-run", schedules, "-seeds", fmt.Sprint(seeds)},
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-failfast", "-timeout", "10m", "-overlay", overlay}, tests...)...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return "", false, ctx.Err()
		case err == nil:
			continue
		case !errors.As(err, &exit), !failure.Match(out): // it did not get as far as to fail a test
			return "", false, fmt.Errorf("%w: %s", err, out)
		}
		return "killed by " + killer(string(out)), true, nil
	}
	return "LIVES", false, nil
}

var (
	failure = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)|^panic: test timed out`)
	seed    = regexp.MustCompile(`seed (\d+)`)
)

// killer names the innermost test that failed first, and the seed if it has one.
func killer(out string) string {
	test := ""
	if strings.Contains(out, "panic: test timed out") {
		return "not coming to an end"
	}
	for _, m := range failure.FindAllStringSubmatch(out, -1) {
		if !strings.HasPrefix(m[1], test) {
			break
		}
		test = m[1]
	}
	if m := seed.FindString(out); m != "" {
		return test + ", " + m
	}
	return test
}

// lay applies a patch to copies of the files that it names, and returns an overlay of the
// go command that puts them in the place of the originals.
func lay(ctx context.Context, patch, dir string) (string, error) {
	text, err := os.ReadFile(patch)
	if err != nil {
		return "", err
	}
	top, err := os.Getwd()
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`).FindAllStringSubmatch(string(text), -1) {
		src, dst := filepath.Join(top, m[1]), filepath.Join(dir, m[1])
		body, err := os.ReadFile(src)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(dst, body, 0o644); err != nil {
			return "", err
		}
		replace[src] = dst
	}
	cmd := exec.CommandContext(ctx, "git", "apply", "--unidiff-zero", filepath.Join(top, patch))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("apply: %w: %s", err, out)
	}
	js, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, js, 0o644)
}
