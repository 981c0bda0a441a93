package wire

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/argocd-fabric/argocd-agent/sync/engine"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
	"github.com/argocd-fabric/argocd-agent/transport"
)

// Opened returns what an engine is told of its log; how far the store had come is left to
// the caller. ours are the versions that this side reads, and common those that its peer reads
// as well, as far as that is known: a row of another version has a digest that no row has,
// so that it is written again.
//
// A reserved row that cannot be read is left out, and so is a row without a proper key: the
// error says which. What is returned can be used all the same. A Fuse that cannot be read
// holds back whatever is missing, since it may have.
func Opened(log transport.Log, ours, common Range) (engine.Opened, error) {
	o := opening{ours, common, engine.Opened{Epoch: log.Epoch, Keeps: log.Keeps, Holds: map[resource.Key]engine.Held{}}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(log.Rows)) {
		k, err := Key(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("wire: own log: %w", err))
			continue
		}
		if err := o.hold(k, log.Rows[name]); err != nil {
			errs = append(errs, fmt.Errorf("wire: own log: %w", err))
		}
	}
	return o.Opened, errors.Join(errs...)
}

type opening struct {
	ours, common Range
	engine.Opened
}

// hold adds the row of k.
func (o *opening) hold(k resource.Key, row transport.Message) error {
	var ext texts
	if row.Event.Context != nil {
		ext = extended(row.Event)
	}
	phase, _ := engine.PhaseNamed(ext.text("phase")) // of our own word, which is written anew if it is not what it should be
	o.Holds[k] = engine.Held{Digest: o.digest(row), UID: ext.text("uid"), Phase: phase, After: engine.Line(ext.text("after"))}
	if k != engine.ManifestKey && k != engine.FuseKey {
		return nil
	}
	m, err := o.ours.Decode(row, nil)
	if err != nil {
		if k == engine.FuseKey {
			o.Fuse = &engine.Fuse{Back: true}
		}
		return err
	}
	switch b := m.Body.(type) {
	case engine.Manifest:
		o.Manifest = &b
	case engine.Fuse:
		o.Fuse = &b
	}
	return nil
}

// digest returns that of a row which the peer can read.
func (o *opening) digest(row transport.Message) resource.Digest {
	if v, ok := VersionOf(row); ok && !o.common.Has(v) {
		return resource.Sum("another version", row.Digest)
	}
	return resource.Digest(row.Digest)
}

// sorted returns the keys of m in order.
func sorted[V any](m map[resource.Key]V) []resource.Key {
	return slices.SortedFunc(maps.Keys(m), resource.Key.Compare)
}
