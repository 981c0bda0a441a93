package deploy

import (
	"path/filepath"
	"slices"
	"testing"

	certmanager "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The example for cert-manager makes the Secrets that the programs may read, and such
// certificates as argocd-agentctl makes.
func TestCertificates(t *testing.T) {
	s := kustomized(t, filepath.Join(root, "cert-manager"))
	readable := func(program string) (names []string) {
		for _, rule := range as[rbacv1.Role](t, kustomized(t, filepath.Join(root, program)), "Role argocd/argocd-agent-"+program).Rules {
			if slices.Contains(rule.Resources, "secrets") {
				names = append(names, rule.ResourceNames...)
			}
		}
		return names
	}
	ca := as[certmanager.Certificate](t, s, "Certificate argocd/argocd-agent-ca")
	require.True(t, ca.Spec.IsCA)
	require.Equal(t, certmanager.RotationPolicyNever, ca.Spec.PrivateKey.RotationPolicy, "another key is another CA")
	require.Contains(t, readable("principal"), ca.Spec.SecretName)
	require.Contains(t, readable("agent"), ca.Spec.SecretName)
	issuer := as[certmanager.Issuer](t, s, "Issuer argocd/argocd-agent")
	require.Equal(t, ca.Spec.SecretName, issuer.Spec.CA.SecretName)
	for name, usage := range map[string]certmanager.KeyUsage{
		"principal": certmanager.UsageServerAuth, "resource-proxy": certmanager.UsageServerAuth, "edge-1": certmanager.UsageClientAuth,
	} {
		c := as[certmanager.Certificate](t, s, "Certificate argocd/argocd-agent-"+name)
		require.Equal(t, issuer.Name, c.Spec.IssuerRef.Name)
		require.Contains(t, c.Spec.Usages, usage)
		if usage == certmanager.UsageServerAuth {
			require.Contains(t, readable("principal"), c.Spec.SecretName)
			require.NotEmpty(t, c.Spec.DNSNames)
		} else {
			require.Equal(t, name, c.Spec.CommonName)
			require.Contains(t, readable("agent"), c.Spec.SecretName[:len("argocd-agent-client-tls")])
		}
	}
	// Its name for Argo CD is that of the Service.
	require.Contains(t, as[certmanager.Certificate](t, s, "Certificate argocd/argocd-agent-resource-proxy").Spec.DNSNames, "argocd-agent-resource-proxy")
	require.Contains(t, kustomized(t, filepath.Join(root, "principal")), "Service argocd/argocd-agent-resource-proxy")
}
