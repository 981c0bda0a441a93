package stack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/bbolt"
)

// Snapshot writes a snapshot of the cluster's etcd to a file, as etcdctl snapshot save
// does. The cluster must have an etcd of its own, see [ClusterConfig.Etcd].
func (c *Cluster) Snapshot(ctx context.Context, file string) error {
	data, err := c.etcd.snapshot(ctx)
	if err == nil {
		err = os.WriteFile(file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("stack: snapshot of the etcd of %s: %w", c.cfg.Name, err)
	}
	return nil
}

// Restore stops the API server and its etcd, which must be the cluster's own, and starts
// them with the state of a snapshot, as etcdutl snapshot restore makes it, in a new data
// directory; with none at all if snapshot is "". Nothing else is stopped: whatever follows
// the cluster finds it younger than it was.
func (c *Cluster) Restore(ctx context.Context, snapshot string) error {
	api := c.Process(APIServer)
	err := c.etcd.exchange(ctx, api, snapshot)
	if err == nil {
		err = c.etcd.process.Start(ctx)
	}
	if err == nil {
		err = api.Start(ctx)
	}
	if err != nil {
		return fmt.Errorf("stack: restore the etcd of %s: %w", c.cfg.Name, err)
	}
	c.mapper.Reset()
	return nil
}

// exchange stops api and then the etcd, and puts a snapshot in place of its data.
func (e *etcd) exchange(ctx context.Context, api *Process, snapshot string) error {
	if err := api.Stop(ctx); err != nil {
		return err
	}
	if err := e.process.Stop(ctx); err != nil {
		return err
	}
	if err := os.Rename(e.dir, e.dir+time.Now().Format("-150405.000000000")); err != nil {
		return err
	}
	if snapshot == "" {
		return nil
	}
	folder := filepath.Join(e.dir, "member", "snap")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return restore(snapshot, filepath.Join(folder, "db"))
}

// snapshot asks an etcd for its database, over the HTTP form of its API.
func (e *etcd) snapshot(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/v3/maintenance/snapshot", strings.NewReader("{}"))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	var data []byte
	for decoder := json.NewDecoder(response.Body); ; {
		var part struct {
			Result struct {
				Blob []byte `json:"blob"`
			} `json:"result"`
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		err := decoder.Decode(&part)
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case part.Error.Message != "":
			return nil, errors.New(part.Error.Message)
		}
		data = append(data, part.Result.Blob...)
	}
}

// restore makes the database of a new etcd from a snapshot: the same keys at the same
// revision, without the members of the old one and without its place in their log.
func restore(snapshot, file string) error {
	data, err := os.ReadFile(snapshot)
	if err != nil {
		return err
	}
	const page = 512 // that it is a multiple of, but for the sum at its end
	end := len(data) - sha256.Size
	if len(data)%page != sha256.Size {
		return fmt.Errorf("%s is no snapshot: it has %d bytes", snapshot, len(data))
	}
	if sum := sha256.Sum256(data[:end]); !bytes.Equal(sum[:], data[end:]) {
		return fmt.Errorf("%s is damaged", snapshot)
	}
	if err := os.WriteFile(file, data[:end], 0o600); err != nil {
		return err
	}
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		return err
	}
	return errors.Join(db.Update(forget), db.Close())
}

// forget takes out of a database what names the etcd that it was of.
func forget(tx *bbolt.Tx) error {
	for _, bucket := range []string{"members", "members_removed", "cluster"} {
		if err := tx.DeleteBucket([]byte(bucket)); err != nil {
			return fmt.Errorf("%s: %w", bucket, err)
		}
		if _, err := tx.CreateBucket([]byte(bucket)); err != nil {
			return fmt.Errorf("%s: %w", bucket, err)
		}
	}
	meta := tx.Bucket([]byte("meta"))
	if meta == nil {
		return errors.New("there is no bucket meta")
	}
	for _, key := range []string{"consistent_index", "term", "confState"} {
		if err := meta.Delete([]byte(key)); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}
