package policy

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// types of bodies, as testdata/cases.txt writes them after the method.
var bodies = map[string]string{
	"":           "application/json",
	"+merge":     "application/merge-patch+json",
	"+strategic": "application/strategic-merge-patch+json",
	"+json":      "application/json-patch+json",
	"+apply":     "application/apply-patch+yaml",
	"+cbor":      "application/apply-patch+cbor",
	"+protobuf":  "application/vnd.kubernetes.protobuf",
}

// TestCases tries the requests of testdata/cases.txt.
func TestCases(t *testing.T) {
	file, err := os.Open("testdata/cases.txt")
	require.NoError(t, err)
	defer file.Close()
	var g guarded
	used := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			mode, allow, _ := strings.Cut(strings.Trim(line, "[]"), " ")
			g = guard(t, world(), mode == "autonomous", allow)
		default:
			outcome, rest, _ := strings.Cut(line, " ")
			rule, request, _ := strings.Cut(strings.TrimSpace(rest), " ")
			got := g.ask(t, strings.TrimSpace(request))
			require.Equal(t, outcome+" "+rule, got.outcome+" "+got.rule, "%s\n%s", line, got.message)
			used[rule] = true
		}
	}
	for _, r := range rules {
		require.True(t, used[r.Name], "no case for the rule %s", r.Name)
	}
}

// guarded is a handler under a policy, and what reaches it.
type guarded struct {
	handler http.Handler
	log     *observer.ObservedLogs
}

func guard(t *testing.T, m *memory, readOnly bool, allow string) guarded {
	a, err := ParseAllow(allow)
	require.NoError(t, err)
	core, logs := observer.New(zapcore.DebugLevel)
	p, err := New(Config{
		Terms:     Terms{Allow: a, ReadOnly: readOnly},
		Namespace: "argocd", Namespaces: func(n string) bool { return n == "team" },
		Objects: m, Log: zap.New(core),
	})
	require.NoError(t, err)
	g := guarded{log: logs}
	g.handler = p.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		require.NoError(t, err)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Reached", r.Method+" "+r.URL.String())
		w.Header().Set("Body", string(text))
		fmt.Fprintln(w, "{}")
	}))
	return g
}

// told is what came of a request.
type told struct{ outcome, rule, message, reached, body string }

// ask makes a request: METHOD+type PATH BODY.
func (g guarded) ask(t *testing.T, request string) told {
	method, rest, _ := strings.Cut(request, " ")
	target, body, _ := strings.Cut(rest, " ")
	typ := ""
	if i := strings.Index(method, "+"); i > 0 {
		method, typ = method[:i], method[i:]
	}
	require.Contains(t, bodies, typ)
	r, err := http.NewRequestWithContext(t.Context(), method, "https://spoke"+target, strings.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("Content-Type", bodies[typ])
	g.log.TakeAll()
	w := httptest.NewRecorder()
	g.handler.ServeHTTP(w, r)
	got := told{outcome: "pass", rule: "-", message: w.Body.String(), reached: w.Header().Get("Reached"), body: w.Header().Get("Body")}
	for _, e := range g.log.All() {
		if rule, ok := e.ContextMap()["rule"].(string); ok {
			got.rule = rule
		}
	}
	if got.reached != "" {
		return got
	}
	got.outcome = fmt.Sprint(w.Code)
	if w.Code == http.StatusOK {
		return got
	}
	var s metav1.Status
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	require.EqualValues(t, w.Code, s.Code)
	require.Equal(t, "Failure", s.Status)
	require.NotEmpty(t, s.Reason)
	if w.Code == http.StatusForbidden {
		require.Contains(t, s.Message, "rule "+got.rule, "a refusal names the rule")
	}
	got.message = s.Message
	return got
}
