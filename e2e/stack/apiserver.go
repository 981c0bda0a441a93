package stack

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// startAPIServer starts the API server, after the cluster's own etcd if it has one, and
// returns once it is ready.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	if c.cfg.Etcd {
		if err := c.etcd.process.Start(ctx); err != nil {
			return err
		}
	}
	if err := os.WriteFile(c.file("audit-policy.yaml"), []byte(auditPolicy), 0o644); err != nil {
		return fmt.Errorf("stack: start %s: %w", APIServer, err)
	}
	return c.part(servers, APIServer, ProcessConfig{
		Args:  c.apiServerArgs(),
		Ready: Answers(c.http, c.url+"/readyz"),
	}).Start(ctx)
}

func (c *Cluster) apiServerArgs() []string {
	return []string{
		"--etcd-servers=" + c.etcd.url,
		"--etcd-prefix=/" + c.cfg.Name,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports[APIServer]),
		"--endpoint-reconciler-type=none",              // an endpoint must not be on loopback
		"--shutdown-watch-termination-grace-period=1s", // or open watches hold up its end for a minute
		"--service-cluster-ip-range=10.96.0.0/16",
		"--cert-dir=" + c.dir,
		"--tls-cert-file=" + c.file("server.crt"),
		"--tls-private-key-file=" + c.file("server.key"),
		"--client-ca-file=" + c.file("ca.crt"),
		"--token-auth-file=" + c.file("tokens.csv"),
		"--authorization-mode=RBAC",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.file("serviceaccounts.key"),
		"--service-account-signing-key-file=" + c.file("serviceaccounts.key"),
		// Pods may start before their namespace has an account, and a node
		// that nothing watches the network of must not stay tainted.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
		"--audit-policy-file=" + c.file("audit-policy.yaml"),
		"--audit-log-path=" + c.file("audit.log"),
		"--audit-log-maxsize=1024",
	}
}

// connect makes the clients; it needs no running API server.
func (c *Cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		return fmt.Errorf("stack: cluster %s: %w", c.cfg.Name, err)
	}
	config.QPS = -1
	c.rest = config
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("stack: cluster %s: %w", c.cfg.Name, err)
	}
	c.http = client
	return c.makeClients(client)
}

func (c *Cluster) makeClients(client *http.Client) error {
	var err error
	if c.client, err = dynamic.NewForConfigAndClient(c.rest, client); err != nil {
		return fmt.Errorf("stack: cluster %s: %w", c.cfg.Name, err)
	}
	disco, err := discovery.NewDiscoveryClientForConfigAndClient(c.rest, client)
	if err != nil {
		return fmt.Errorf("stack: cluster %s: %w", c.cfg.Name, err)
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	return nil
}
