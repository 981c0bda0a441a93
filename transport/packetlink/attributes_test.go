package packetlink

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/stretchr/testify/require"
)

func plainEvent() event.Event {
	ev := event.New()
	ev.SetID("abc-1")
	ev.SetSource("argocd-agent://spoke-a")
	ev.SetType("io.argoproj.argocd-agent.event.state")
	ev.SetSubject("Application/argocd/guestbook")
	ev.SetTime(time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC))
	ev.SetExtension("digest", "0123456789abcdef0123456789abcdef")
	ev.SetExtension("uid", "b6a1c7b2-0f0e-4f0f-9d0a-6f2f1a2b3c4d")
	ev.SetDataContentType(event.ApplicationJSON)
	return ev
}

// TestAttributesAreTheSDKs holds that what is written here the SDK reads, and the other way round,
// whether or not it is plain.
func TestAttributesAreTheSDKs(t *testing.T) {
	for name, change := range map[string]func(*event.Event){
		"plain":               func(*event.Event) {},
		"letters of all kind": func(ev *event.Event) { ev.SetSubject("Anwendung/größe/日本") },
		"quotes":              func(ev *event.Event) { ev.SetID(`a "quoted" \ id`) },
		"for HTML":            func(ev *event.Event) { ev.SetID("<a&b>") },
		"a control character": func(ev *event.Event) { ev.SetID("a\tb") },
		"a number":            func(ev *event.Event) { ev.SetExtension("n", 7) },
		"a schema":            func(ev *event.Event) { ev.SetDataSchema("https://example.com/schema") },
		"nothing optional": func(ev *event.Event) {
			ev.Context = &event.EventContextV1{ID: "1", Type: "t", Source: ev.Context.(*event.EventContextV1).Source}
		},
	} {
		ev := plainEvent()
		change(&ev)
		text, err := appendAttributes(nil, ev)
		require.NoError(t, err, name)
		var sdk event.Event
		require.NoError(t, json.Unmarshal(text, &sdk), "%s: %s", name, text)
		ours, err := readAttributes(text)
		require.NoError(t, err, name)
		require.Equal(t, sdk, ours, name)

		theirs, err := json.Marshal(ev)
		require.NoError(t, err, name)
		ours, err = readAttributes(theirs)
		require.NoError(t, err, name)
		require.Equal(t, sdk, ours, name)
	}
}

// FuzzAttributes holds that no text reads otherwise because it looks plain.
func FuzzAttributes(f *testing.F) {
	text, err := appendAttributes(nil, plainEvent())
	require.NoError(f, err)
	for _, seed := range []string{
		string(text), "{}", `{"specversion":"1.0"}`, `{"specversion":"1.0","id":"1","id":"2","type":"t","source":"s"}`,
		`{"specversion":"1.0","id":"1","type":"t","source":"s","data":"x"}`, `{"specversion":"1.0","id":"1","type":"t","source":"s",}`,
		`{"specversion":"0.3","id":"1","type":"t","source":"s"}`, `{"specversion":"1.0","id":"1","type":"t","source":"%zz"}`,
		`{"specversion":"1.0","id":"1","type":"t","source":"s","time":"now"}`, `{"specversion":"1.0","id":"1","type":"t","source":"s","Up":"x"}`,
		`{"specversion":"1.0","id":"1","type":"t","source":"s"}{`, `{"specversion":"1.0","id":"1","type":"t","source":"s","datacontenttype":""}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := readPlainly([]byte(text))
		if c == nil {
			return // the SDK reads it
		}
		var sdk event.Event
		require.NoError(t, json.Unmarshal([]byte(text), &sdk))
		require.Equal(t, sdk.Context, c)
	})
}

func BenchmarkAttributes(b *testing.B) {
	ev := plainEvent()
	text, err := appendAttributes(nil, ev)
	require.NoError(b, err)
	b.Run("write", func(b *testing.B) {
		b.ReportAllocs()
		to := make([]byte, 0, 1024)
		for b.Loop() {
			_, _ = appendAttributes(to, ev)
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = readAttributes(text)
		}
	})
	b.Run("read by the SDK", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var sdk event.Event
			_ = json.Unmarshal(text, &sdk)
		}
	})
	b.Run("write by the SDK", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(ev)
		}
	})
}
