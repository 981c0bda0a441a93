package stack

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// tokenSeconds is the life of a ServiceAccount token: longer than any test.
const tokenSeconds = 24 * 60 * 60

// writeCredentials writes the authority, the certificate of the API server, the
// key for ServiceAccount tokens, and the administrator's token and kubeconfig.
func (c *Cluster) writeCredentials() error {
	ca, err := newAuthority(c.cfg.Name)
	if err != nil {
		return err
	}
	c.ca = ca
	if err := ca.serving(APIServer, c.file("server.crt"), c.file("server.key")); err != nil {
		return err
	}
	if err := newKeyFile(c.file("serviceaccounts.key")); err != nil {
		return err
	}
	c.token = rand.Text()
	for name, content := range map[string]string{
		"ca.crt":     string(ca.pem()),
		"tokens.csv": c.token + ",admin,admin,system:masters\n",
	} {
		if err := os.WriteFile(c.file(name), []byte(content), 0o600); err != nil {
			return fmt.Errorf("stack: cluster %s: %w", c.cfg.Name, err)
		}
	}
	return c.writeKubeconfig(c.Kubeconfig(), "admin", c.token, metav1.NamespaceDefault)
}

// writeKubeconfig writes a kubeconfig for the holder of a token. What is in it has names of its
// own, so that KUBECONFIG may list those of several clusters.
func (c *Cluster) writeKubeconfig(path, user, token, namespace string) error {
	name := c.cfg.Name
	holder := user + "@" + name
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: c.url, CertificateAuthorityData: c.ca.pem()}
	config.AuthInfos[holder] = &api.AuthInfo{Token: token}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: holder, Namespace: namespace}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("stack: write the kubeconfig of %s on %s: %w", user, name, err)
	}
	return nil
}

// ServiceAccountKubeconfig asks the API server for a token of an existing
// ServiceAccount and returns the path of a kubeconfig with it. Programs that
// run by it have the rights that RBAC grants the account, and no other.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	request := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1",
		"kind":       "TokenRequest",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"expirationSeconds": int64(tokenSeconds)},
	}}
	accounts := schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	answer, err := c.client.Resource(accounts).Namespace(namespace).
		Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return "", fmt.Errorf("stack: token of %s/%s on %s: %w", namespace, name, c.cfg.Name, err)
	}
	token, _, err := unstructured.NestedString(answer.Object, "status", "token")
	if err != nil {
		return "", fmt.Errorf("stack: token of %s/%s on %s: %w", namespace, name, c.cfg.Name, err)
	}
	path := filepath.Join(c.dir, "serviceaccounts", namespace+"-"+name+".kubeconfig")
	return path, c.writeKubeconfig(path, name, token, namespace)
}
