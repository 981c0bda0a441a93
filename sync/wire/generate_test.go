package wire_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/seal"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
)

var envelope = wire.Envelope{
	ID:          "01-0000002a",
	Source:      "8f14e45f-ceea-467f-a8c6-0d5b1c1e4d6f",
	Time:        time.Date(2026, 3, 1, 12, 30, 15, 250_000_000, time.UTC),
	Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	Tracestate:  "vendor=t61rcWkgMzE",
	Pair:        writer,
}

// The two ends of the link, as each of them knows the pair.
var writer, reader = between("writer", "reader"), between("reader", "writer")

func between(own, peer string) *seal.Pair {
	parse := func(name string) seal.Key {
		text, err := os.ReadFile(filepath.Join("testdata", name+".pem"))
		if err != nil {
			panic(err)
		}
		k, err := seal.Parse(text)
		if err != nil {
			panic(err)
		}
		return k
	}
	p, err := seal.Between(parse(own), parse(peer).Public())
	if err != nil {
		panic(err)
	}
	return p
}

// numbers that a decoder to float64 or a careless encoder would change.
var numbers = []string{"0", "-0", "1.0", "1.10", "1e400", "1E+2", "-12.5e-7", "9007199254740993", "18446744073709551616"}

// texts that an encoder likes to escape, as JSON.
var texts = []string{`""`, `"<&>"`, `"é \u00e9 \ud83d\ude00 😀"`, "\"\u2028\"", `"\u2028\/\""`, `"a\tb\u0000"`, `"\ud800"`}

// aJSON draws any JSON value without space around its tokens, not always canonical.
func aJSON(depth int) *rapid.Generator[string] {
	leaves := rapid.SampledFrom(append(append([]string{"true", "false", "null", "[]", "{}"}, numbers...), texts...))
	if depth == 0 {
		return leaves
	}
	list := rapid.Map(rapid.SliceOfN(aJSON(depth-1), 0, 3), func(v []string) string { return "[" + strings.Join(v, ",") + "]" })
	object := rapid.Map(rapid.SliceOfN(aJSON(depth-1), 0, 3), func(v []string) string {
		for i := range v {
			v[i] = fmt.Sprintf(`"field<%d>":%s`, i, v[i])
		}
		return "{" + strings.Join(v, ",") + "}"
	})
	return rapid.OneOf(leaves, list, object)
}

// aName draws what Kubernetes takes for a name, and a little more.
func aName() *rapid.Generator[string] {
	return rapid.StringMatching(`[a-z0-9]([a-z0-9.:-]{0,20}[a-z0-9])?`)
}

// aWord draws a UID or an identity; at times it is empty.
func aWord() *rapid.Generator[string] { return rapid.StringMatching(`([a-zA-Z0-9-]{1,36})?`) }

func aDigest() *rapid.Generator[resource.Digest] {
	return rapid.Map(rapid.String(), func(s string) resource.Digest { return resource.Sum(s) })
}

func aKey() *rapid.Generator[resource.Key] {
	return rapid.Custom(func(t *rapid.T) resource.Key {
		return resource.Key{
			Kind:      rapid.SampledFrom([]resource.Kind{"Application", "AppProject", "Secret", "Unheard"}).Draw(t, "kind"),
			Namespace: rapid.OneOf(rapid.Just(""), aName()).Draw(t, "namespace"),
			Name:      aName().Draw(t, "name"),
		}
	})
}

func aTicket() *rapid.Generator[engine.Ticket] {
	return rapid.Custom(func(t *rapid.T) engine.Ticket {
		return engine.Ticket{Epoch: aWord().Draw(t, "epoch"), N: rapid.Uint64().Draw(t, "n")}
	})
}

func aRecord(t *rapid.T) engine.Message {
	r := engine.Record{
		UID:   aWord().Draw(t, "uid"),
		By:    aWord().Draw(t, "by"),
		Phase: rapid.SampledFrom([]engine.Phase{engine.Live, engine.Going, engine.Gone, engine.Excluded}).Draw(t, "phase"),
		After: engine.Line(aWord().Draw(t, "after")),
	}
	for p := range resource.NumParts {
		r.Parts[p] = rapid.OneOf(rapid.Just(""), aJSON(3)).Draw(t, p.String())
	}
	for _, p := range []resource.Part{resource.OpID, resource.Fault, resource.Terminate, resource.Refresh} {
		r.Parts[p] = rapid.String().Draw(t, p.String()+" text")
	}
	k := aKey().Draw(t, "key")
	if k.Kind.Sealed() && r.Parts != (resource.Parts{}) {
		r.Seal = writer.Digest()
	}
	return engine.Message{Key: k, Body: r}
}

func aTombstone(t *rapid.T) engine.Message {
	key := rapid.OneOf(aKey(), rapid.Just(engine.AskKey), rapid.Just(engine.FuseKey))
	return engine.Message{Key: key.Draw(t, "key"), Body: engine.Tombstone{UID: aWord().Draw(t, "uid"), After: engine.Line(aWord().Draw(t, "after"))}}
}

func aManifest(t *rapid.T) engine.Message {
	return engine.Message{Key: engine.ManifestKey, Body: engine.Manifest{
		Epoch:    rapid.String().Draw(t, "epoch"),
		By:       rapid.String().Draw(t, "by"),
		Since:    rapid.Uint64().Draw(t, "since"),
		Age:      rapid.Uint64().Draw(t, "age"),
		Peak:     rapid.Uint64().Draw(t, "peak"),
		Count:    rapid.IntRange(0, 1<<40).Draw(t, "count"),
		Root:     rapid.Uint64().Draw(t, "root"),
		Answered: aTicket().Draw(t, "answered"),
	}}
}

func someSums(t *rapid.T) engine.Message {
	s := engine.Sums{Answered: aTicket().Draw(t, "answered")}
	for i, n := range rapid.MapOfN(rapid.IntRange(0, engine.Buckets-1), rapid.Uint64(), 0, 20).Draw(t, "sums") {
		s.Of[i] = n
	}
	return engine.Message{Key: engine.SumsKey, Body: s}
}

func anAsk(t *rapid.T) engine.Message {
	a := engine.Ask{Ticket: aTicket().Draw(t, "ticket"), Of: aWord().Draw(t, "of")}
	for _, i := range rapid.SliceOf(rapid.IntRange(0, engine.Buckets-1)).Draw(t, "buckets") {
		a.Buckets = a.Buckets.With(i)
	}
	if have := rapid.MapOf(aKey(), aDigest()).Draw(t, "have"); len(have) > 0 {
		a.Have = have
	}
	return engine.Message{Key: engine.AskKey, Body: a}
}

func aFuse(t *rapid.T) engine.Message {
	f := engine.Fuse{
		By:    aWord().Draw(t, "by"),
		Since: rapid.Uint64().Draw(t, "since"),
		Age:   rapid.Uint64().Draw(t, "age"),
		Back:  rapid.Bool().Draw(t, "back"),
	}
	for _, k := range rapid.SliceOf(aKey()).Draw(t, "removed") {
		of := engine.Absent{Key: k, UID: aWord().Draw(t, "uid")}
		f.Removed = append(f.Removed, engine.Removal{At: rapid.Int64().Draw(t, "at"), Of: of})
	}
	for _, k := range rapid.SliceOf(aKey()).Draw(t, "held") {
		f.Held = append(f.Held, engine.Absent{Key: k, UID: aWord().Draw(t, "uid")})
	}
	return engine.Message{Key: engine.FuseKey, Body: f}
}

func anApproval(t *rapid.T) engine.Message {
	return engine.Message{Key: engine.ApprovalKey, Body: engine.Approval{Of: aDigest().Draw(t, "of")}}
}

func aSeal(t *rapid.T) engine.Message {
	return engine.Message{Key: engine.SealKey, Body: engine.Seal{Public: rapid.String().Draw(t, "public"), Of: rapid.String().Draw(t, "of")}}
}

func aMessage() *rapid.Generator[engine.Message] {
	return rapid.OneOf(rapid.Custom(aRecord), rapid.Custom(aTombstone), rapid.Custom(aManifest), rapid.Custom(someSums),
		rapid.Custom(anAsk), rapid.Custom(aFuse), rapid.Custom(anApproval), rapid.Custom(aSeal))
}
