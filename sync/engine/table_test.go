package engine_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

var update = flag.Bool("update", false, "write the tables in testdata anew")

// A scene is what one side knows of one key: what it has, and what the peer has said of it,
// one after the other.
type scene struct {
	side  resource.Side
	rules resource.Rules
	here  resource.Object // without a UID: nothing
	gone  bool            // it was seen to go
	said  []engine.Body
	more  bool // another copy is absent as well
	some  bool // it is not known whether that is all that the peer has
}

// A verdict is a row of a table.
type verdict struct {
	engine.Situation
	does []string // act for act, in a store that does what it is told
	says string   // of the key in the end, if it says anything new
}

// play puts an Engine into the scene.
func (s scene) play() (v verdict) {
	p := &player{k: cmp.Or(s.here.Key, app(0)), version: 1, e: engine.New(engine.Config{Side: s.side, Rules: s.rules, Self: names[s.side], Peer: names[1-s.side]})}
	if s.here.UID != "" {
		p.show(s.here)
	}
	if s.gone {
		p.step(engine.Opened{Epoch: "ours", Keeps: true, Revision: 1})
		p.step(engine.Vanished{Key: p.k, UID: s.here.UID, Seen: true})
	}
	other := resource.Object{Key: app(1), UID: "other", Version: "1", Origin: resource.Origin{UID: "lost", By: names[1-s.side]}}
	if s.more {
		p.step(engine.Changed{Object: other})
	}
	for i, b := range s.said {
		p.step(engine.Received{At: uint64(i) + 1, Message: engine.Message{Key: p.k, Body: b}})
	}
	if s.more {
		p.step(engine.Received{At: 1, Message: engine.Message{Key: other.Key, Body: engine.Tombstone{}}})
	}
	if s.said[len(s.said)-1] == (engine.Tombstone{}) && !s.some {
		p.step(engine.Received{At: 1, Message: engine.Message{Key: engine.ManifestKey, Body: engine.Manifest{Epoch: "theirs", By: names[1-s.side]}}})
	}
	if !s.gone {
		p.step(engine.Opened{Epoch: "ours", Keeps: true, Revision: 1})
	}
	p.run()
	if len(p.does) == 0 {
		p.at = p.e.Situation(p.k)
	}
	return verdict{p.at, p.does, p.says}
}

// names are those of the two sides.
var names = [2]string{"hub", "spoke"}

// A player is an Engine with a store that does what it is told.
type player struct {
	k       resource.Key
	e       *engine.Engine
	version int
	queue   []engine.Action
	at      engine.Situation // when it acted first
	does    []string
	says    string
}

func (p *player) step(ev engine.Event) {
	p.queue = append(p.queue, p.e.Step(time.Unix(1_700_000_000, 0), ev)...)
}

func (p *player) show(o resource.Object) resource.Object {
	p.version++
	o.Version = strconv.Itoa(p.version)
	p.step(engine.Changed{Object: o})
	return o
}

func (p *player) run() {
	for quiet := 0; quiet < 5; {
		if len(p.queue) == 0 {
			p.step(engine.Tick{})
			quiet++
			continue
		}
		a := p.queue[0]
		p.queue = p.queue[1:]
		if m, ok := a.(engine.Send); ok {
			if m.Message.Key == p.k {
				p.says = spoken(m.Message.Body)
			}
		} else if target(a) == p.k {
			p.act(a)
		}
	}
}

func (p *player) act(a engine.Action) {
	if len(p.does) == 0 {
		p.at = p.e.Situation(p.k)
	}
	p.does = append(p.does, p.e.Does(a))
	done := engine.Wrote{Key: p.k}
	w, ok := a.(engine.Write)
	if o := w.Object; ok && (!o.Deleting || len(meta(o).Finalizers) > 0) {
		o.UID = cmp.Or(o.UID, "new")
		o = p.show(o)
		done.Object = &o
	} else {
		p.step(engine.Vanished{Key: p.k, Seen: true})
	}
	p.step(done)
}

// spoken says what a row is.
func spoken(b engine.Body) string {
	switch b := b.(type) {
	case engine.Tombstone:
		if b.UID != "" {
			return "that it was deleted"
		}
		return "that there is none"
	case engine.Record:
		f := b.Parts[resource.Fault]
		switch {
		case f != "" && b.Phase == engine.Gone:
			return "gone, but " + f
		case f != "":
			return "AgentError: " + f
		}
		return b.Phase.String()
	}
	return ""
}

// ways are the finalizers by which Argo CD deletes what an Application has deployed.
var ways = []string{"", cascade, cascade + "/background", cascade + "/foreground"}

// object returns what there is under the name in question, as a copy of an original, or as
// nobody's copy. More is said of it in pairs: annotations, and "finalizer".
func object(of, by string, more ...string) resource.Object {
	m := resource.Metadata{Annotations: map[string]string{}}
	for i := 0; i < len(more); i += 2 {
		if more[i] != "finalizer" {
			m.Annotations[more[i]] = more[i+1]
		} else if more[i+1] != "" {
			m.Finalizers = []string{more[i+1]}
		}
	}
	return resource.Object{Key: app(0), UID: "here", Origin: resource.Origin{UID: of, By: by}, Parts: resource.Parts{resource.Spec: `"old"`, resource.Meta: m.Text(), resource.Status: `"well"`}}
}

// row returns what the peer says of an original.
func row(uid, by string, phase engine.Phase, more ...string) engine.Record {
	r := engine.Record{UID: uid, By: by, Phase: phase, Parts: object("", "", more...).Parts}
	r.Parts[resource.Spec], r.Parts[resource.Status] = `"new"`, ""
	return r
}

// ownObject returns an object of this side.
func ownObject(more ...string) resource.Object {
	o := object("", "", more...)
	o.Parts[resource.Status] = ""
	return o
}

func deleting(o resource.Object) resource.Object { o.Deleting = true; return o }
func excluded(o resource.Object) resource.Object { o.Excluded = true; return o }

func project0(o resource.Object) resource.Object {
	o.Key = resource.Key{Kind: resource.Project, Name: "0"}
	return o
}

// A reader is the side that has copies.
type reader struct {
	side  resource.Side
	rules resource.Rules
	peer  string // who its originals are of
}

var readers = []reader{
	{resource.Agent, resource.Rules{}, "hub"},
	{resource.Principal, resource.Rules{Mode: resource.Autonomous}, "spoke"},
}

func (r reader) scene(here resource.Object, said ...engine.Body) scene {
	return scene{side: r.side, rules: r.rules, here: here, said: said}
}

// adoptions are all scenes in which the peer has an original.
func (r reader) adoptions() (out []scene) {
	live := func(more ...string) engine.Record { return row("p2", r.peer, engine.Live, more...) }
	known := func(more ...string) engine.Record { l := live(more...); l.After = "p1"; return l }
	for _, here := range []resource.Object{
		{}, object("p2", r.peer), object("p2", "another"), excluded(object("p1", r.peer)), excluded(object("", "")),
		object("p1", r.peer), object("p1", "another"),
	} {
		out = append(out, r.scene(here, live()))
	}
	for _, mismatch := range []resource.Mismatch{resource.Recreate, resource.Upsert} {
		r.rules.Mismatch = mismatch
		for _, by := range []string{r.peer, "another"} {
			for _, word := range []string{"", "recreate", "upsert"} {
				annotated := []string{resource.MismatchAnnotation, word}
				if word == "" {
					annotated = nil
				}
				out = append(out, r.scene(object("p1", by), known(annotated...)))
			}
			out = append(out, r.scene(project0(object("p1", by)), known()))
		}
	}
	for _, adopt := range []bool{true, false} {
		r.rules.Adopt = adopt
		for _, word := range []string{"", "always", "never"} {
			annotated := []string{resource.AdoptionAnnotation, word}
			if word == "" {
				annotated = nil
			}
			out = append(out, r.scene(object("", "", annotated...), live()))
		}
	}
	return out
}

// deletions are all scenes in which a copy or its original is going.
func (r reader) deletions() (out []scene) {
	for i, way := range ways {
		going := row("p2", r.peer, engine.Going, "finalizer", way)
		otherwise := ways[(i+1)%len(ways)]
		for _, here := range []resource.Object{
			object("p2", r.peer, "finalizer", way), object("p2", r.peer, "finalizer", otherwise),
			object("p1", r.peer, "finalizer", way), object("p1", r.peer, "finalizer", otherwise), {}, object("", ""), excluded(object("p2", r.peer)), excluded(object("", "")),
		} {
			if r.side == resource.Agent { // an agent does not wait for its principal, and so does not say that it deletes
				out = append(out, r.scene(here, going))
			}
		}
	}
	for _, way := range ways[:2] {
		mine := object("p2", r.peer, "finalizer", way)
		few := r.scene(mine, engine.Tombstone{})
		many, early := few, few
		many.more, early.some = true, true
		out = append(out, r.scene(mine, engine.Tombstone{UID: "p2"}), few, many, early, r.scene(deleting(mine), row("p2", r.peer, engine.Live)))
	}
	return append(out,
		r.scene(object("", ""), engine.Tombstone{}), r.scene(deleting(object("", "")), row("p2", r.peer, engine.Live)),
		r.scene(excluded(object("p2", r.peer)), engine.Tombstone{UID: "p2"}), r.scene(excluded(object("", "")), engine.Tombstone{}),
		r.scene(object("p2", r.peer), row("p2", r.peer, engine.Excluded)),
		r.scene(object("p2", "another"), engine.Tombstone{}))
}

// owners are all scenes in which an original of this side is going.
func owners() (out []scene) {
	for _, side := range []resource.Side{resource.Principal, resource.Agent} {
		s := scene{side: side, rules: resource.Rules{Mode: resource.Mode(side)}}
		peer := names[1-side]
		for _, said := range []engine.Body{
			engine.Tombstone{}, row("here", peer, engine.Live), row("here", peer, engine.Gone), row("before", peer, engine.Gone), row("here", peer, engine.Excluded),
		} {
			s.said = []engine.Body{said}
			for _, way := range ways[:2] {
				s.here = deleting(ownObject("finalizer", way))
				out = append(out, s)
			}
			s.here = excluded(deleting(ownObject()))
			out = append(out, s)
			s.here = project0(deleting(ownObject()))
			out = append(out, s)
			s.here, s.gone = deleting(ownObject()), true
			out = append(out, s)
			s.gone = false
		}
	}
	return out
}

// tables returns what comes of every scene, by the file that it stands in.
func tables() map[string][]verdict {
	out := map[string][]verdict{}
	seen := map[engine.Situation]bool{}
	all := owners()
	for _, r := range readers {
		all = append(append(all, r.adoptions()...), r.deletions()...)
	}
	for _, s := range all {
		v := s.play()
		if v.Situation == (engine.Situation{}) || seen[v.Situation] {
			continue
		}
		seen[v.Situation] = true
		file := "deletion.txt"
		if v.Adoption() {
			file = "adoption.txt"
		}
		out[file] = append(out[file], v)
	}
	for _, verdicts := range out {
		slices.SortStableFunc(verdicts, func(a, b verdict) int { return -cmp.Compare(a.Side, b.Side) })
	}
	return out
}

// TestTables keeps in testdata what becomes of an object that is there already when the peer
// names it, and what becomes of a copy and its original when one of them goes.
func TestTables(t *testing.T) {
	for file, verdicts := range tables() {
		var b strings.Builder
		w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
		fmt.Fprintln(w, "side\t| here\t| the peer says\t| policy\t| what is done, and said")
		for _, v := range verdicts {
			done := cmp.Or(strings.Join(v.does, ", "), "left as it is")
			if v.says != "" {
				done += "; says " + v.says
			}
			fmt.Fprintf(w, "%s\t| %s\t| %s\t| %s\t| %s\n", v.Side, v.Here, v.Peer, v.Policy, done)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || string(want) != b.String() {
			t.Errorf("%s is not what the rules say (go test ./sync/engine -run TestTables -update writes it): %v\n%s", path, err, b.String())
		}
	}
}
