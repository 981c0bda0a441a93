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
// the caller. A reserved row that cannot be read is left out, and so is a row without a
// proper key: the error says which. What is returned can be used all the same.
func Opened(log transport.Log) (engine.Opened, error) {
	o := opened{Epoch: log.Epoch, Keeps: log.Keeps, Holds: map[resource.Key]engine.Held{}}
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
	return engine.Opened(o), errors.Join(errs...)
}

type opened engine.Opened

// hold adds the row of k.
func (o *opened) hold(k resource.Key, row transport.Message) error {
	ext := map[string]string{}
	if row.Event.Context != nil {
		ext = extensions(row.Event)
	}
	phase, _ := engine.PhaseNamed(ext["phase"]) // of our own word, which is written anew if it is not what it should be
	o.Holds[k] = engine.Held{Digest: resource.Digest(row.Digest), UID: ext["uid"], Phase: phase, After: engine.Line(ext["after"])}
	if k != engine.ManifestKey && k != engine.FuseKey {
		return nil
	}
	m, err := Decode(row, nil)
	if err != nil {
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

// sorted returns the keys of m in order.
func sorted[V any](m map[resource.Key]V) []resource.Key {
	return slices.SortedFunc(maps.Keys(m), resource.Key.Compare)
}
