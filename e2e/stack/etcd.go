package stack

import (
	"context"
	"path/filepath"
)

// startEtcd starts the etcd that all API servers share, each below a prefix of
// its own.
func (s *Stack) startEtcd(ctx context.Context) error {
	client, err := s.Port()
	if err != nil {
		return err
	}
	peer, err := s.Port()
	if err != nil {
		return err
	}
	s.etcdURL = "http://" + loopback(client)
	peerURL := "http://" + loopback(peer)
	return s.process(storage, ProcessConfig{
		Name: "etcd",
		Path: s.binaries.Path("etcd"),
		Args: []string{
			"--name=stack",
			"--data-dir=" + filepath.Join(s.dir, "etcd"),
			"--unsafe-no-fsync", // the data is thrown away
			"--log-level=warn",
			"--listen-client-urls=" + s.etcdURL,
			"--advertise-client-urls=" + s.etcdURL,
			"--listen-peer-urls=" + peerURL,
			"--initial-advertise-peer-urls=" + peerURL,
			"--initial-cluster=stack=" + peerURL,
			"--quota-backend-bytes=2147483648",
		},
		Env:   []string{"GOGC=50"},
		Ready: answers(nil, s.etcdURL+"/health"),
	}).Start(ctx)
}
