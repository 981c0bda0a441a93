package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMaskKeepsAllButValues(t *testing.T) {
	for _, c := range []struct{ name, in, out string }{
		{"alone", `{"kind":"Secret","metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"data\":1}","x":"y","mine":"z"}},"data":{"tls.crt":"QQ==","n":null},"type":"Opaque"}`,
			`{"kind":"Secret","metadata":{"name":"a","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"++++++++","x":"y","mine":"++++++++"}},"data":{"tls.crt":"++++++++","n":null},"type":"Opaque"}`},
		{"in a list", `{"kind":"SecretList","metadata":{"resourceVersion":"12345678901234567890"},"items":[{"data":{"a":"QQ=="}},{"stringData":{"b":"B"}}]}`,
			`{"kind":"SecretList","metadata":{"resourceVersion":"12345678901234567890"},"items":[{"data":{"a":"++++++++"}},{"stringData":{"b":"++++++++"}}]}`},
		{"watched", `{"type":"ADDED","object":{"data":{"a":"QQ=="}}}` + "\n" + `{"type":"BOOKMARK","object":{"metadata":{}}}`,
			`{"type":"ADDED","object":{"data":{"a":"++++++++"}}}` + "\n" + `{"type":"BOOKMARK","object":{"metadata":{}}}`},
		{"in a table", `{"kind":"Table","rows":[{"cells":["a",1],"object":{"data":{"a":"QQ=="}}}]}`,
			`{"kind":"Table","rows":[{"cells":["a",1],"object":{"data":{"a":"++++++++"}}}]}`},
		{"a failure", `{"kind":"Status","status":"Failure","message":"none","code":404}`, `{"kind":"Status","status":"Failure","message":"none","code":404}`},
		{"of an odd shape", `{"data":["QQ==",{"a":{"b":7}}],"stringData":"S"}`, `{"data":["++++++++",{"a":{"b":"++++++++"}}],"stringData":"++++++++"}`},
		{"nothing", ``, ``},
	} {
		var out bytes.Buffer
		require.NoError(t, mask(&out, iotest.OneByteReader(strings.NewReader(c.in)), []string{"mine"}, func() {}), c.name)
		require.Equal(t, c.out, strings.TrimSuffix(out.String(), "\n"), c.name)
	}
}

func TestMaskFailsOnWhatIsNotWhole(t *testing.T) {
	for _, text := range []string{`{"data":{"a":"QQ`, `{"data":{`, `{"data"`, `[1,`, `{"a":1]`, `nonsense`} {
		var out bytes.Buffer
		require.Error(t, mask(&out, strings.NewReader(text), nil, func() {}), text)
		require.NotContains(t, out.String(), "QQ")
	}
}

// FuzzMask holds that whatever is masked is JSON of the same shape, in which nothing is left of
// data but masks.
func FuzzMask(f *testing.F) {
	f.Add([]byte(`{"kind":"Secret","metadata":{"annotations":{"a":"b"}},"data":{"a":"QQ=="},"stringData":{"b":1.5e300}}`))
	f.Add([]byte(`{"kind":"List","items":[{"data":{"a":[true,null,"\u2028<"]}}]} {"object":{"stringData":{}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var out bytes.Buffer
		err := mask(&out, bytes.NewReader(text), nil, func() {})
		if err == nil != wellFormed(text) {
			t.Fatalf("%v of %q", err, text)
		}
		if err != nil {
			return
		}
		for dec := json.NewDecoder(&out); ; {
			var v any
			err := dec.Decode(&v)
			if errors.Is(err, io.EOF) {
				return
			}
			require.NoError(t, err)
			clean(t, v)
		}
	})
}

// wellFormed reports whether text is a row of JSON values.
func wellFormed(text []byte) bool {
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// clean holds that an object, and those in its items, have nothing but masks in their data.
func clean(t *testing.T, v any) {
	object, ok := v.(map[string]any)
	if !ok {
		return
	}
	masks(t, object["data"])
	masks(t, object["stringData"])
	if items, ok := object["items"].([]any); ok {
		for _, i := range items {
			clean(t, i)
		}
	}
	clean(t, object["object"])
}

func masks(t *testing.T, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, inner := range v {
			masks(t, inner)
		}
	case []any:
		for _, inner := range v {
			masks(t, inner)
		}
	case nil:
	default:
		require.Equal(t, Mask, v)
	}
}

// secrets guards a handler that answers for Secrets.
func secrets(t *testing.T, answer http.HandlerFunc) http.Handler {
	p, err := New(Config{Namespace: "argocd", Objects: world(), Log: nop, Terms: Terms{Allow: Allow{kinds: []string{"*/*"}}}})
	require.NoError(t, err)
	return p.Guard(answer)
}

func TestSecretsAreAskedForInJSON(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var asked http.Header
	h := secrets(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "24")
		_, err := io.WriteString(w, `{"data":{"a":"QUJDREU="}}`)
		require.NoError(t, err)
	})
	r := httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/shop/secrets/creds", nil)
	for name, value := range map[string]string{
		"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/vnd.kubernetes.protobuf", "Accept-Encoding": "gzip", "Connection": "Upgrade", "Upgrade": "websocket",
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, `{"data":{"a":"++++++++"}}`+"\n", w.Body.String())
	require.Empty(t, w.Header().Get("Content-Length"))
	require.Equal(t, http.Header{"Accept": {"application/json"}, "Accept-Encoding": {"identity"}}, asked)
	require.Equal(t, "websocket", r.Header.Get("Upgrade"), "the caller's request is left alone")
}

func TestSecretsInAnotherFormAreKept(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for _, c := range []struct {
		code           int
		typ, encoding  string
		method, answer string
		want           int
	}{
		{200, "application/vnd.kubernetes.protobuf", "", "GET", "k8s QUJDREU=", 502},
		{200, "application/json", "gzip", "GET", "QUJDREU=", 502},
		{200, "", "", "GET", `{"a":"QUJDREU="}`, 502},
		{403, "text/plain", "", "GET", "QUJDREU=", 502},
		{101, "", "", "GET", "QUJDREU=", 502},
		{404, "application/json", "", "GET", `{"kind":"Status"}`, 404},
		{200, "application/json", "", "HEAD", "", 200},
	} {
		h := secrets(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{c.typ}
			w.Header().Set("Content-Encoding", c.encoding)
			w.Header().Set("Leak", "QUJDREU=")
			w.WriteHeader(c.code)
			_, err := io.WriteString(w, c.answer)
			require.NoError(t, err)
		})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(c.method, "/api/v1/namespaces/shop/secrets/creds", nil))
		require.Equal(t, c.want, w.Code, "%+v", c)
		require.NotContains(t, w.Body.String(), "QUJDREU=")
		if c.want == 502 {
			require.NotContains(t, w.Header(), "Leak")
		}
	}
}

// TestASecretsWatchIsToldAsItComes reads a watch over a connection: its head before any event,
// each event before the next.
func TestASecretsWatchIsToldAsItComes(t *testing.T) {
	next := make(chan string)
	s := httptest.NewServer(secrets(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for event := range next {
			_, err := io.WriteString(w, event)
			require.NoError(t, err)
			w.(http.Flusher).Flush()
		}
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	answer, err := s.Client().Get(s.URL + "/api/v1/secrets?watch=true")
	require.NoError(t, err)
	defer answer.Body.Close()
	dec := json.NewDecoder(answer.Body)
	for range 3 {
		next <- `{"type":"ADDED","object":{"data":{"a":"QQ=="}}}`
		var event map[string]any
		require.NoError(t, dec.Decode(&event))
		require.Equal(t, map[string]any{"type": "ADDED", "object": map[string]any{"data": map[string]any{"a": Mask}}}, event)
	}
	close(next)
	require.ErrorIs(t, dec.Decode(&struct{}{}), io.ErrUnexpectedEOF, "what broke off does not end well")
}

// TestABrokenAnswerOfSecretsDoesNotEndWell: what the API server did not finish is no whole answer.
func TestABrokenAnswerOfSecretsDoesNotEndWell(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	h := secrets(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"data":{"a":"QUJD`)
		require.NoError(t, err)
	})
	w := httptest.NewRecorder()
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/namespaces/shop/secrets/creds", nil))
	})
	require.NotContains(t, w.Body.String(), "QUJD")
}
