package simulation

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/argocd-fabric/argocd-agent/agent"
	"github.com/argocd-fabric/argocd-agent/backend"
	"github.com/argocd-fabric/argocd-agent/backend/memstore"
	"github.com/argocd-fabric/argocd-agent/principal"
	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// A vault is a hub and one managed agent over NATS, with all that they keep in one folder:
// stores, dead letters, and logs at their most talkative.
type vault struct {
	*nats
	hub, spoke *memstore.Store
	hubKey     seal.Key
	principal  *principal.Principal
	agent      *agent.Agent
	letters    map[string]*ledger.Ledger
	log        map[string]*zap.Logger
	ends       map[string]func()
}

const vaultAgent = "edge"

// A startedHub is one that runs already.
type startedHub struct{ transport.Hub }

func (startedHub) Run(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func newVault(t *testing.T) *vault {
	v := &vault{nats: newNATS(t, nil).(*nats), letters: map[string]*ledger.Ledger{}, log: map[string]*zap.Logger{}, ends: map[string]func(){}}
	v.hub = memstore.New(memstore.Config{Name: "hub"})
	v.spoke = memstore.New(memstore.Config{Name: vaultAgent, Admit: func(o resource.Object) error {
		if o.Key.Name == "refused" {
			return errors.New("it may not be here")
		}
		return nil
	}})
	v.hubKey = vaultKey(t)
	for _, side := range []string{"hub", vaultAgent} {
		file, err := os.Create(filepath.Join(v.dir, side+".log"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, file.Close()) })
		c := zap.NewDevelopmentConfig()
		c.OutputPaths = []string{file.Name()}
		v.log[side], err = c.Build()
		require.NoError(t, err)
		v.letters[side], err = ledger.Open(filepath.Join(v.dir, "state-"+side, "dead-letters.db"))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, v.letters[side].Close()) })
	}
	t.Cleanup(v.stopAll)
	return v
}

func vaultKey(t *testing.T) seal.Key {
	k, err := seal.New()
	require.NoError(t, err)
	return k
}

// Watch implements backend.Registry.
func (v *vault) Watch(ctx context.Context, f func([]backend.Agent) error) error {
	if err := f([]backend.Agent{{Name: vaultAgent, Mode: resource.Managed}}); err != nil {
		return err
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

func (v *vault) startPrincipal(t *testing.T, key seal.Key) {
	var err error
	v.principal, err = principal.New(principal.Config{
		Identity: hubIdentity, Hub: startedHub{v.StartHub(t)}, Store: v.hub, Registry: v, Namespace: argocd, Unscoped: true,
		Key: key, Ledger: v.letters["hub"], Tick: 500 * time.Millisecond, Log: v.log["hub"],
	})
	require.NoError(t, err)
	end := v.begin(t, v.principal.Run)
	v.ends["hub"] = func() { end(); v.StopHub(t) }
}

func (v *vault) startAgent(t *testing.T, key seal.Key) {
	var err error
	v.agent, err = agent.New(agent.Config{
		Name: vaultAgent, Namespace: argocd, Dialer: v.StartAgent(t, vaultAgent), Store: v.spoke,
		Rules: resource.Rules{Mode: resource.Managed, Adopt: true},
		Key:   key, Letters: v.letters[vaultAgent].Book("principal"), Tick: 500 * time.Millisecond, Log: v.log[vaultAgent],
	})
	require.NoError(t, err)
	v.ends[vaultAgent] = v.begin(t, v.agent.Run)
}

func (v *vault) begin(t *testing.T, run func(context.Context) error) func() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	}
}

func (v *vault) stopSide(side string) {
	if end := v.ends[side]; end != nil {
		delete(v.ends, side)
		end()
	}
}

func (v *vault) stopAll() {
	v.stopSide(vaultAgent)
	v.stopSide("hub")
}

// repository is what a repository's Secret has in it.
func repository(password string) string {
	return resource.Canonical(map[string]any{
		"password": base64.StdEncoding.EncodeToString([]byte(password)), "url": base64.StdEncoding.EncodeToString([]byte("https://git.example/" + url.QueryEscape(password))),
	})
}

func (v *vault) plant(name, password string) {
	v.hub.Edit(secretKey(name), func(o *resource.Object) {
		o.Parts[resource.Spec] = repository(password)
		o.Parts[resource.Meta] = resource.Metadata{Labels: map[string]string{"argocd.argoproj.io/secret-type": "repository"}}.Text()
	})
}

func secretKey(name string) resource.Key {
	return resource.Key{Kind: resource.Secret, Namespace: argocd, Name: name}
}

// has reports whether the agent's cluster has a repository with a password.
func (v *vault) has(name, password string) bool {
	o, _ := v.spoke.Get(secretKey(name))
	return o.Parts[resource.Spec] == repository(password)
}

// quiet reports whether both sides are in step, and the agent knows of one dead letter.
func (v *vault) quiet() bool {
	hub, err := v.principal.Agent(vaultAgent)
	s := v.agent.Status()
	return err == nil && hub.Session.Engine.InStep && s.Engine.InStep && s.DeadLetters == 1
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

// TestPasswordsAreNowhereInClear plants passwords in the Secrets of repositories, has them
// travel, be changed, be refused, and travel anew because the key of either side is another,
// and then reads all that principal and agent have kept anywhere.
func TestPasswordsAreNowhereInClear(t *testing.T) {
	t.Parallel()
	v := newVault(t)
	password := func() string { return "hunter2-" + rand.Text() + "/+&" }
	first, second, refused, label := password(), password(), password(), strings.ToLower("label-"+rand.Text())
	v.hub.Edit(resource.Key{Kind: resource.Application, Namespace: vaultAgent, Name: "app"}, func(o *resource.Object) {
		o.Parts[resource.Spec] = `{}`
		o.Parts[resource.Meta] = resource.Metadata{Labels: map[string]string{"planted": label}}.Text()
	})
	v.plant("repo", first)
	v.plant("refused", refused)

	v.startPrincipal(t, v.hubKey)
	key := vaultKey(t)
	v.startAgent(t, key)
	await(t, "the repository reaches the agent", func() bool { return v.has("repo", first) && v.quiet() })
	v.plant("repo", second)
	await(t, "the new password reaches it", func() bool { return v.has("repo", second) && v.quiet() })

	letters := v.letters[vaultAgent].Book("principal").All()
	require.Len(t, letters, 1)
	require.Equal(t, ledger.Refused, letters[0].Cause)
	require.Equal(t, "Secret/refused", letters[0].Key)
	require.Contains(t, string(letters[0].Event), `"sealed"`, "the letter holds the message, and only sealed")

	for _, restart := range []func(){
		func() { v.stopSide(vaultAgent); v.startAgent(t, vaultKey(t)) },
		func() { v.stopSide("hub"); v.startPrincipal(t, vaultKey(t)) },
	} {
		restart()
		await(t, "with another key they are in step again", v.quiet)
		third := password()
		v.plant("repo", third)
		await(t, "and what changes reaches the agent", func() bool { return v.has("repo", third) && v.quiet() })
		first += "\n" + third
	}
	v.stopAll()

	for _, side := range []string{"hub", vaultAgent} {
		require.NotEmpty(t, v.holding(t, v.store(side), label), "what is not secret is found in the store of %s", side)
		require.NotEmpty(t, v.holding(t, v.store(side), "argocd-agent.event.sealed"), "and so are the messages")
	}
	require.NotEmpty(t, v.holding(t, filepath.Join(v.dir, "state-"+vaultAgent), "may not be here"))
	for _, secret := range append(strings.Split(first, "\n"), second, refused) {
		for _, text := range disguises(secret) {
			require.Empty(t, v.holding(t, v.dir, text), "%q of %q is in a file", text, secret)
		}
	}
}

// holding returns the files of a folder, or one file, that have a text in them.
func (v *vault) holding(t *testing.T, dir, text string) (found []string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			found = append(found, path)
		}
		return err
	}))
	return found
}

// disguises are the forms that a text may have in a file: as it is, as JSON, in a URL, as
// hexadecimal, and in base64, once or twice, wherever in a longer text it stands.
func disguises(text string) []string {
	quoted, _ := json.Marshal(text)
	out := []string{text, string(quoted[1 : len(quoted)-1]), url.QueryEscape(text), url.PathEscape(text), hex.EncodeToString([]byte(text))}
	once := inBase64(text)
	out = append(out, once...)
	for _, form := range once {
		out = append(out, inBase64(form)...)
	}
	return append(out, fmt.Sprint([]byte(text))[1:])
}

// inBase64 returns the characters that are the same whatever is before and behind a text,
// for each of the three places in which it may begin.
func inBase64(text string) (out []string) {
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		for shift := range 3 {
			form := e.EncodeToString([]byte(strings.Repeat("x", shift) + text + "xxx"))
			begin := (shift*8 + 5) / 6
			out = append(out, form[begin:(shift+len(text))*8/6])
		}
	}
	return out
}
