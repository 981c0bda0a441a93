package wire_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/wire"
	"github.com/argocd-fabric/argocd-agent/transport"
)

var update = flag.Bool("update", false, "write the golden events that there are not")

// examples holds a message of each type; the golden events of every version are these.
var examples = map[string]engine.Message{
	"state": {
		Key: resource.Key{Kind: resource.Application, Namespace: "ns", Name: "a"},
		Body: engine.Record{UID: "0b5c", By: envelope.Source, Phase: engine.Live, After: "0a4b", Parts: resource.Parts{
			resource.Spec:      `{"destination":{"name":"prod"},"revision":9007199254740993,"share":1.10}`,
			resource.Meta:      `{"labels":{"team":"<a&b>"}}`,
			resource.Status:    `{"health":{"status":"Healthy"},"sync":{"status":"Synced"}}`,
			resource.OpState:   `{"phase":"Running"}`,
			resource.Operation: `{"sync":{"revision":"abc"}}`,
			resource.OpID:      "1772368215-1f",
			resource.Fault:     `admission webhook says "no"`,
			resource.Terminate: `1772368215-1f {"sync":{"revision":"abc"}}`,
			resource.Refresh:   "hard-1772368215",
		}},
	},
	"tombstone": {
		Key:  resource.Key{Kind: resource.Application, Namespace: "ns", Name: "a"},
		Body: engine.Tombstone{UID: "0b5c", After: "0a4b"},
	},
	"manifest": {Key: engine.ManifestKey, Body: engine.Manifest{
		Epoch: "e1", By: envelope.Source, Since: 815, Age: 4711, Peak: 1 << 63, Count: 3, Root: 0xabc, Answered: engine.Ticket{Epoch: "e2", N: 7},
	}},
	"sums": {Key: engine.SumsKey, Body: engine.Sums{
		Answered: engine.Ticket{Epoch: "e2", N: 7}, Of: [engine.Buckets]uint64{0: 1, 255: 1<<64 - 1},
	}},
	"ask": {Key: engine.AskKey, Body: engine.Ask{
		Ticket: engine.Ticket{Epoch: "e2", N: 1<<64 - 1}, Of: "e1", Buckets: engine.BucketSet{}.With(0).With(64).With(255),
		Have: map[resource.Key]resource.Digest{
			{Kind: resource.Application, Namespace: "ns", Name: "b"}: resource.Sum("b"),
			{Kind: resource.Application, Namespace: "ns", Name: "a"}: resource.Sum("a"),
		},
	}},
	"fuse": {Key: engine.FuseKey, Body: engine.Fuse{
		By: envelope.Source, Since: 815, Age: 4711, Back: true, Removed: []engine.Removal{{At: 1772368215, Of: engine.Absent{Key: resource.Key{Kind: resource.Application, Name: "gone"}, UID: "0a4b"}}},
		Held: []engine.Absent{{Key: resource.Key{Kind: resource.Application, Namespace: "ns", Name: "a"}, UID: "0b5c"}},
	}},
	"approval": {Key: engine.ApprovalKey, Body: engine.Approval{Of: resource.Sum("held")}},
	"seal":     {Key: engine.SealKey, Body: engine.Seal{Public: "Cr5d", Of: "9hQa"}},
	"sealed": {
		Key: resource.Key{Kind: resource.Secret, Namespace: "argocd", Name: "repo"},
		Body: engine.Record{UID: "0b5c", By: envelope.Source, After: "0a4b", Seal: writer.Digest(), Parts: resource.Parts{
			resource.Spec: `{"data":{"password":"aHVudGVyMg=="}}`,
		}},
	},
}

// TestGoldenEvents: each version is read as it was, and written as it was.
func TestGoldenEvents(t *testing.T) {
	kept, err := os.ReadDir(filepath.Join("testdata", "golden"))
	require.NoError(t, err)
	var versions []string
	for v := wire.Oldest; v <= wire.Newest; v++ {
		versions = append(versions, fmt.Sprintf("v%d", v))
		for name, m := range examples {
			t.Run(fmt.Sprintf("v%d/%s", v, name), func(t *testing.T) {
				path := filepath.Join("testdata", "golden", fmt.Sprintf("v%d", v), name+".txt")
				encoded := inBinary(encodeAs(t, name, v))
				if *update {
					writeNew(t, path, encoded)
				}
				golden, err := os.ReadFile(path)
				require.NoError(t, err)
				got, err := wire.Decode(parse(t, golden), reader)
				require.NoError(t, err)
				require.Equal(t, m, got)
				require.Equal(t, fixed(name, golden), fixed(name, encoded), "a version that was released does not change: make another")
			})
		}
	}
	for _, dir := range kept {
		require.Contains(t, versions, dir.Name(), "events of a version that nobody reads any more")
	}
}

// writeNew writes a golden event that there is not: those that there are stay as they are.
func writeNew(t *testing.T, path string, event []byte) {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return
	}
	require.NoError(t, err)
	_, err = f.Write(event)
	require.NoError(t, errors.Join(err, f.Close()))
}

// fixed returns what is the same each time that an event is written: what is sealed never is.
func fixed(name string, event []byte) string {
	if name == "sealed" {
		event, _, _ = bytes.Cut(event, []byte("\n\n"))
	}
	return string(event)
}

// TestExamplesLeaveNothingOut holds that no field of a body is forgotten here, and so in the
// encoding. What cannot be other than zero is a live state's phase, and what
// is not sealed has no seal.
func TestExamplesLeaveNothingOut(t *testing.T) {
	for name, m := range examples {
		v := reflect.ValueOf(m.Body)
		for i := range v.NumField() {
			if f := v.Type().Field(i).Name; f != "Phase" && (f != "Seal" || name == "sealed") {
				require.False(t, v.Field(i).IsZero(), "%s of %s", f, name)
			}
		}
	}
}

// inBinary returns an event in binary mode: its attributes as headers, its data as body.
func inBinary(m transport.Message) []byte {
	headers := map[string]string{
		"ce-specversion": m.Event.SpecVersion(),
		"ce-id":          m.Event.ID(),
		"ce-source":      m.Event.Source(),
		"ce-type":        m.Event.Type(),
		"ce-subject":     m.Event.Subject(),
		"ce-time":        m.Event.Time().Format(time.RFC3339Nano),
	}
	if ct := m.Event.DataContentType(); ct != "" {
		headers["content-type"] = ct
	}
	for k, v := range m.Event.Extensions() {
		s, err := types.Format(v)
		if err != nil {
			panic(err)
		}
		headers["ce-"+k] = s
	}
	var b bytes.Buffer
	for _, k := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(&b, "%s: %s\n", k, headers[k])
	}
	b.WriteString("\n")
	if data := m.Event.Data(); len(data) > 0 {
		b.Write(append(data, '\n'))
	}
	return b.Bytes()
}

// parse is the inverse of inBinary.
func parse(t *testing.T, text []byte) transport.Message {
	head, body, ok := strings.Cut(string(text), "\n\n")
	require.True(t, ok)
	ev := event.New()
	for line := range strings.SplitSeq(head, "\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "ce-specversion":
			ev.SetSpecVersion(value)
		case "ce-id":
			ev.SetID(value)
		case "ce-source":
			ev.SetSource(value)
		case "ce-type":
			ev.SetType(value)
		case "ce-subject":
			ev.SetSubject(value)
		case "ce-time":
			at, err := time.Parse(time.RFC3339Nano, value)
			require.NoError(t, err)
			ev.SetTime(at)
		case "content-type":
			ev.SetDataContentType(value)
		default:
			ev.SetExtension(strings.TrimPrefix(name, "ce-"), value)
		}
	}
	if body != "" {
		ev.DataEncoded = []byte(strings.TrimSuffix(body, "\n"))
	}
	digest, _ := ev.Extensions()["digest"].(string)
	return transport.Message{Key: ev.Subject(), Digest: digest, Event: ev}
}
