package scripts

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/argocd-fabric/argocd-agent/transport/identity/pki"
	"github.com/argocd-fabric/argocd-agent/transport/netfault"
)

// patience is how long a script waits for anything.
const patience = 30 * time.Second

// programs are those that a script has started, by the name it has given them.
type programs map[string]*program

// key is that of a script's programs among its values.
type key struct{}

// A program runs beside the script.
type program struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed once it has ended
	code  int           // then

	mu     sync.Mutex
	output []byte
}

// Write implements io.Writer.
func (p *program) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.output = append(p.output, text...)
	return len(text), nil
}

func (p *program) said() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output[:len(p.output):len(p.output)]
}

func (p programs) kill() {
	for _, one := range p {
		_ = one.cmd.Process.Kill() // it may have ended
		<-one.ended
	}
}

func named(ts *testscript.TestScript, args []string) *program {
	if len(args) == 0 {
		ts.Fatalf("which program?")
	}
	p := ts.Value(key{}).(programs)[args[0]]
	if p == nil {
		ts.Fatalf("%s was not started", args[0])
	}
	return p
}

// start NAME PROGRAM ARGS... runs a program beside the script.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: start name program args...")
	}
	p := &program{cmd: exec.Command(find(ts, args[1]), args[2:]...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = ts.Getenv("WORK"), p, p
	// All scripts share the machine's ports: one that looks at metrics says where they are.
	p.cmd.Env = append(os.Environ(), "ARGOCD_PRINCIPAL_METRICS_PORT=0", "ARGOCD_AGENT_METRICS_PORT=0")
	for _, name := range []string{"TMPDIR", "KUBECONFIG", "KUBE_FEATURE_WatchListClient"} {
		if value := ts.Getenv(name); value != "" {
			p.cmd.Env = append(p.cmd.Env, name+"="+value)
		}
	}
	ts.Check(p.cmd.Start())
	ts.Value(key{}).(programs)[args[0]] = p
	go func() {
		defer close(p.ended)
		var exit *exec.ExitError
		if err := p.cmd.Wait(); errors.As(err, &exit) {
			p.code = exit.ExitCode()
		}
	}()
}

// find returns the path of a program that the script's PATH, which is not the test's, has.
func find(ts *testscript.TestScript, name string) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if path := filepath.Join(dir, name); isFile(path) {
			return path
		}
	}
	ts.Fatalf("there is no program %s", name)
	return ""
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// await NAME REGEXP waits until a program has said something.
func await(ts *testscript.TestScript, neg bool, args []string) {
	p := named(ts, args)
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await name regexp")
	}
	what := regexp.MustCompile(args[1])
	for deadline := time.Now().Add(patience); !what.Match(p.said()); time.Sleep(10 * time.Millisecond) {
		select {
		case <-p.ended:
			if !what.Match(p.said()) {
				ts.Fatalf("%s has ended with %d and not said %q but:\n%s", args[0], p.code, args[1], p.said())
			}
		default:
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s has not said %q in %v, but:\n%s", args[0], args[1], patience, p.said())
		}
	}
}

// get URL CODE REGEXP asks a program over HTTP until it answers like that.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: get url code regexp")
	}
	client, what, got := http.Client{Timeout: patience}, regexp.MustCompile(args[2]), ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		answer, err := client.Get(args[0])
		if err != nil {
			got = err.Error()
			continue
		}
		text, err := io.ReadAll(answer.Body)
		ts.Check(errors.Join(err, answer.Body.Close()))
		if got = string(text); strconv.Itoa(answer.StatusCode) == args[1] && what.MatchString(got) {
			return
		}
	}
	ts.Fatalf("%s has answered in the end: %s", args[0], got)
}

// times NAME REGEXP N checks how many lines a program has said that match.
func times(ts *testscript.TestScript, neg bool, args []string) {
	p := named(ts, args)
	if neg || len(args) != 3 {
		ts.Fatalf("usage: times name regexp n")
	}
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	found := regexp.MustCompile(`(?m)^.*(?:`+args[1]+`).*$`).FindAll(p.said(), -1)
	if len(found) != want {
		ts.Fatalf("%s has said %q %d times:\n%s", args[0], args[1], len(found), p.said())
	}
}

// ended NAME CODE waits until a program has ended by itself.
func ended(ts *testscript.TestScript, neg bool, args []string) {
	p := named(ts, args)
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended name code")
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		ts.Fatalf("%s has not ended in %v:\n%s", args[0], patience, p.said())
	}
	if strconv.Itoa(p.code) != args[1] {
		ts.Fatalf("%s has ended with %d:\n%s", args[0], p.code, p.said())
	}
}

// halt NAME asks a program to end, as a kubelet does, and expects that it does, with 0.
func halt(ts *testscript.TestScript, neg bool, args []string) {
	p := named(ts, args)
	select {
	case <-p.ended:
		ts.Fatalf("%s has ended before, with %d:\n%s", args[0], p.code, p.said())
	default:
	}
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	ended(ts, neg, append(args, "0"))
}

// port NAME... sets variables to ports of the loopback interface that are free.
func port(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: port name...")
	}
	for _, name := range args {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		defer l.Close() // only then: all are different
		_, text, err := net.SplitHostPort(l.Addr().String())
		ts.Check(err)
		ts.Setenv(name, text)
	}
}

// proxy NAME sets a variable to the URL of an HTTP proxy that takes CONNECT.
func proxy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: proxy name")
	}
	s := httptest.NewServer(&netfault.Proxy{})
	ts.Defer(s.Close) // what it carries ends with the programs
	ts.Setenv(args[0], s.URL)
}

// reverse NAME PORT sets a variable to the host:port of a reverse proxy of what listens on a
// port. It speaks HTTP/1.1 only.
func reverse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: reverse name port")
	}
	to := &url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", args[1])}
	s := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }})
	ts.Defer(s.Close) // what it carries ends with the programs
	ts.Setenv(args[0], s.Listener.Addr().String())
}

// issue DIR NAME AGE makes, with the CA in DIR, an agent's certificate that was issued so
// long ago for an hour: argocd-agentctl makes none that has expired.
func issue(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: issue dir agent age")
	}
	age, err := time.ParseDuration(args[2])
	ts.Check(err)
	dir := ts.MkAbs(args[0])
	ca, err := pki.LoadCA(pki.Pair{Cert: []byte(ts.ReadFile(dir + "/ca.crt")), Key: []byte(ts.ReadFile(dir + "/ca.key"))})
	ts.Check(err)
	pair, err := ca.IssueAgent(args[1], pki.Options{Now: time.Now().Add(-age), Lifetime: time.Hour})
	ts.Check(err)
	ts.Check(os.MkdirAll(dir+"/agents", 0o700))
	ts.Check(os.WriteFile(dir+"/agents/"+args[1]+".crt", pair.Cert, 0o600))
	ts.Check(os.WriteFile(dir+"/agents/"+args[1]+".key", pair.Key, 0o600))
}

// append FILE FILE adds the second to the first.
func appendTo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: append file file")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(ts.ReadFile(args[0])+ts.ReadFile(args[1])), 0o600))
}

// remember NAME REGEXP sets a variable to what the regexp's group has matched in the last
// standard output.
func remember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: remember name regexp")
	}
	found := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) != 2 {
		ts.Fatalf("there is no %q in the output", args[1])
	}
	ts.Setenv(args[0], found[1])
}
