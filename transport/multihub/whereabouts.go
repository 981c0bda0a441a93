package multihub

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"

	"github.com/argocd-fabric/argocd-agent/transport"
	"github.com/argocd-fabric/argocd-agent/transport/boltfile"
)

// whereabouts keeps on which carrier each agent is, in a bbolt file. The methods that are not
// open and close work between them.
type whereabouts struct {
	path string
	db   *bbolt.DB
}

const inUse = time.Second // how long opening waits for another process

var bucket = []byte("carriers")

func (w *whereabouts) open() (err error) {
	if err = os.MkdirAll(filepath.Dir(w.path), 0o700); err == nil {
		w.db, err = boltfile.Open(w.path, inUse)
	}
	if err == nil {
		err = w.db.Update(func(tx *bbolt.Tx) error {
			_, err := tx.CreateBucketIfNotExists(bucket)
			return err
		})
	}
	if err != nil {
		w.close()
		return fmt.Errorf("multihub: open %s, which says on which transport agents are: %w: %w", w.path, transport.ErrStore, err)
	}
	return nil
}

func (w *whereabouts) close() {
	if w.db != nil {
		_ = w.db.Close() // nothing waits to be written
	}
}

// of returns the carrier on which an agent is, "" if that is not known.
func (w *whereabouts) of(agent string) (carrier string, err error) {
	err = w.db.View(func(tx *bbolt.Tx) error {
		carrier = string(tx.Bucket(bucket).Get([]byte(agent)))
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("multihub: read on which transport %s is: %w", agent, err)
	}
	return carrier, nil
}

// note takes in that an agent is on a carrier.
func (w *whereabouts) note(agent, carrier string) error {
	if known, err := w.of(agent); err == nil && known == carrier {
		return nil
	}
	err := w.db.Batch(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte(agent), []byte(carrier)) })
	if err != nil {
		return fmt.Errorf("multihub: write that %s is on %s: %w", agent, carrier, err)
	}
	return nil
}

func (w *whereabouts) forget(agent string) error {
	err := w.db.Batch(func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Delete([]byte(agent)) })
	if err != nil {
		return fmt.Errorf("multihub: forget on which transport %s is: %w", agent, err)
	}
	return nil
}
