package stack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseAudit(t *testing.T) {
	log := `{"auditID":"1","stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/secrets/s","verb":"get","user":{"username":"system:serviceaccount:argocd:agent"},"objectRef":{"resource":"secrets","namespace":"a","name":"s","apiVersion":"v1"},"responseStatus":{"code":403}}
{"auditID":"2","stage":"ResponseStarted","requestURI":"/apis/argoproj.io/v1alpha1/applications?watch=true","verb":"watch","user":{"username":"system:serviceaccount:argocd:agent"},"objectRef":{"resource":"applications","apiGroup":"argoproj.io"},"responseStatus":{"code":200}}
{"auditID":"3","stage":"ResponseComplete","requestURI":"/version","verb":"get","user":{"username":"system:serviceaccount:argocd:agent"},"responseStatus":{"code":200}}
{"auditID":"2","stage":"ResponseComplete","requestURI":"/apis/argoproj.io/v1alpha1/applications?watch=true","verb":"watch","user":{"username":"system:serviceaccount:argocd:agent"},"objectRef":{"resource":"applications","apiGroup":"argoproj.io"},"responseStatus":{"code":200}}
{"auditID":"4","stage":"Resp`
	const user = "system:serviceaccount:argocd:agent"
	records, err := parseAudit([]byte(log))
	require.NoError(t, err)
	require.Equal(t, []AuditRecord{
		{User: user, Verb: "get", Resource: "secrets", Namespace: "a", Name: "s", URI: "/api/v1/namespaces/a/secrets/s", Code: 403},
		{User: user, Verb: "watch", Group: "argoproj.io", Resource: "applications", URI: "/apis/argoproj.io/v1alpha1/applications?watch=true", Code: 200},
		{User: user, Verb: "get", URI: "/version", Code: 200},
	}, records)

	_, err = parseAudit([]byte("no JSON\n"))
	require.Error(t, err)
}
