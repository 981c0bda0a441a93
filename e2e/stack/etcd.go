package stack

import (
	"context"
	"path/filepath"
)

// An etcd keeps the state of API servers, each below a prefix of its own.
type etcd struct {
	process *Process
	url     string
	dir     string // of its data; what it lacks is made
}

// newEtcd prepares an etcd with its data below dir.
func (s *Stack) newEtcd(name, dir string) (*etcd, error) {
	client, err := s.Port()
	if err != nil {
		return nil, err
	}
	peer, err := s.Port()
	if err != nil {
		return nil, err
	}
	e := &etcd{url: "http://" + loopback(client), dir: filepath.Join(dir, "etcd")}
	peerURL := "http://" + loopback(peer)
	e.process = s.process(storage, ProcessConfig{
		Name: name,
		Path: s.binaries.Path("etcd"),
		Args: []string{
			"--name=stack",
			"--data-dir=" + e.dir,
			"--unsafe-no-fsync", // the data is thrown away
			"--log-level=warn",
			"--listen-client-urls=" + e.url,
			"--advertise-client-urls=" + e.url,
			"--listen-peer-urls=" + peerURL,
			"--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=stack=" + peerURL,
			"--quota-backend-bytes=2147483648",
		},
		Env:   []string{"GOGC=50"},
		Ready: Answers(nil, e.url+"/health"),
	})
	return e, nil
}

// startEtcd starts the etcd of all clusters that have none of their own.
func (s *Stack) startEtcd(ctx context.Context) error {
	e, err := s.newEtcd("etcd", s.dir)
	if err != nil {
		return err
	}
	s.etcd = e
	return e.process.Start(ctx)
}
