package journal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/sync/trail"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func after(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

func app(name string) resource.Key { return resource.Key{Kind: resource.Application, Name: name} }

func digest(n int) resource.Digest { return resource.Sum(fmt.Sprint(n)) }

func live(status string) engine.Record {
	r := engine.Record{UID: "u", By: "hub"}
	r.Parts[resource.Status] = status
	return r
}

func book(t *testing.T, limit int) (Book, *Journal) {
	j, err := New(limit)
	require.NoError(t, err)
	return j.Book("edge"), j
}

func TestAPageSaysWhatBecameOfAChange(t *testing.T) {
	b, _ := book(t, 0)
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	require.Empty(t, b.Sending(trail.Sent{Key: app("a")}))
	sent := trail.Sent{Key: app("a"), Row: live(`{"reconciledAt":"2026-03-01T11:59:58Z"}`), Digest: digest(1), Seen: noon, Said: after(1), Done: after(2), Trace: trace}
	failed := sent
	failed.Err = errors.New("the store is full")
	b.Sent(failed)
	require.Equal(t, "the store is full", b.Page(app("a")).Said[0].Failed)
	require.Zero(t, b.Page(app("a")).Said[0].Sent)
	b.Sent(sent)
	sent.Done = after(500)
	b.Sent(sent) // again
	of := Of{Digest: string(digest(1)[:Digits]), Phase: "live", Reconciled: "2026-03-01T11:59:58Z", Trace: "0af7651916cd43dd8448eb211c80319c"}
	require.Equal(t, Page{Said: []Said{{Of: of, Seen: noon, Said: after(1), Sent: after(2)}}}, b.Page(app("a")))

	b.Heard(trail.Heard{Key: app("b"), Row: engine.Tombstone{}, Written: after(3), At: after(4), Trace: "no trace"})
	b.Wrote(trail.Wrote{Key: app("b"), Began: after(5), Done: after(6), Outcome: engine.Failed, Text: "no quota"})
	b.Wrote(trail.Wrote{Key: app("b"), Began: after(7), Done: after(8), Removed: true})
	b.Wrote(trail.Wrote{Key: app("b"), Began: after(9), Done: after(10)})
	require.Equal(t, Page{Heard: []Heard{{Of: Of{Phase: "deleted"}, Written: after(3), Heard: after(4), Began: after(7), Ended: after(8), Tries: 2, End: Done}}},
		b.Page(app("b")), "what is written after that is about what others have done")
	require.Zero(t, b.Page(app("c")))
	require.Equal(t, []resource.Key{app("a")}, b.Named(resource.Application, "a"))
	require.Empty(t, b.Named(resource.Project, "a"))
}

func TestAJournalIsBounded(t *testing.T) {
	b, j := book(t, 3)
	for k := range 5 {
		for i := range 20 {
			b.Sent(trail.Sent{Key: app(fmt.Sprint(k)), Row: live(""), Digest: digest(i), Done: after(i)})
			b.Heard(trail.Heard{Key: app(fmt.Sprint(k)), Row: live(""), Digest: digest(i), At: after(i)})
			b.Wrote(trail.Wrote{Key: app(fmt.Sprint(k)), Outcome: engine.Refused, Text: strings.Repeat("ä", 1000)})
		}
	}
	require.Equal(t, 3, j.Len())
	require.Zero(t, b.Page(app("1")), "nothing was heard of it for longest")
	p := b.Page(app("4"))
	require.Len(t, p.Said, Kept)
	require.Len(t, p.Heard, Kept)
	require.Equal(t, string(digest(19)[:Digits]), p.Said[Kept-1].Digest)
	require.LessOrEqual(t, len(p.Heard[0].Why), maxText)
	j.Forget("another")
	require.Equal(t, 3, j.Len())
	j.Forget("edge")
	require.Zero(t, j.Len())
	require.Zero(t, j.order.Len())
}

// A page must not grow without that being noticed: there are as many as changed objects.
func TestAPageIsAsSmallAsItIsSaidToBe(t *testing.T) {
	fixed := unsafe.Sizeof(page{}) + Kept*(unsafe.Sizeof(said{})+unsafe.Sizeof(heard{}))
	require.LessOrEqual(t, int(fixed), 1100)
	require.LessOrEqual(t, int(fixed)+2*Kept*maxText, 3100)
}

func TestWhatIsGoneIsForgottenAfterAWhile(t *testing.T) {
	b, j := book(t, 0)
	b.Sent(trail.Sent{Key: app("gone"), Row: engine.Tombstone{}, Done: noon})
	b.Heard(trail.Heard{Key: app("gone"), Row: engine.Tombstone{}, At: noon})
	b.Sent(trail.Sent{Key: app("there"), Row: engine.Tombstone{}, Done: noon})
	b.Heard(trail.Heard{Key: app("there"), Row: live(""), Digest: digest(1), At: noon})
	b.Sent(trail.Sent{Key: app("new"), Row: live(""), Digest: digest(1), Done: noon.Add(Lasting)})
	require.Equal(t, 3, j.Len(), "it can be asked for a while what became of it")
	b.Sent(trail.Sent{Key: app("newer"), Row: live(""), Digest: digest(1), Done: noon.Add(Lasting + sweeps)})
	require.Equal(t, 3, j.Len())
	require.Zero(t, b.Page(app("gone")))
	require.NotZero(t, b.Page(app("there")))
}

// BenchmarkBook is what a journal costs of each change that is sent.
func BenchmarkBook(b *testing.B) {
	j, err := New(0)
	require.NoError(b, err)
	w, row := trail.Witness(j.Book("edge")), engine.Body(live(""))
	digests := [2]resource.Digest{digest(0), digest(1)}
	b.ReportAllocs()
	for i := range b.N {
		w.Sent(trail.Sent{Key: app("a"), Row: row, Digest: digests[i%2], Done: noon})
	}
}
