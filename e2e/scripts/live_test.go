package scripts

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// live asks for a path of an agent's cluster as the hub's Argo CD does, by what its cluster
// Secret says, and waits until the answer has a code and matches.
func (c clusters) live(ts *testscript.TestScript, _ bool, args []string) {
	on := c.on(ts, append([]string{"hub"}, args...), 6, "live namespace agent path code regexp")
	code, err := strconv.Atoi(args[3])
	ts.Check(err)
	what := regexp.MustCompile(args[4])
	secret, err := on.Dynamic().Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).
		Namespace(args[0]).Get(c.t.Context(), "cluster-"+args[1], metav1.GetOptions{})
	ts.Check(err)
	server, config, err := known(secret)
	ts.Check(err)
	client, err := rest.HTTPClientFor(config)
	ts.Check(err)
	defer client.CloseIdleConnections()
	got := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		answer, err := client.Get("https://" + server.Host + args[2])
		if err != nil {
			got = err.Error()
			continue
		}
		body, err := io.ReadAll(answer.Body)
		ts.Check(err)
		ts.Check(answer.Body.Close())
		if answer.StatusCode == code && what.Match(body) {
			return
		}
		got = fmt.Sprint(answer.StatusCode, " ", string(body))
	}
	ts.Fatalf("%s of %s is in the end: %s", args[2], args[1], got)
}

// known returns what a cluster Secret says of a cluster.
func known(secret *unstructured.Unstructured) (*url.URL, *rest.Config, error) {
	fields, _, err := unstructured.NestedStringMap(secret.Object, "data")
	if err != nil {
		return nil, nil, err
	}
	texts := map[string][]byte{}
	for _, name := range []string{"server", "config"} {
		if texts[name], err = base64.StdEncoding.DecodeString(fields[name]); err != nil {
			return nil, nil, err
		}
	}
	var config struct {
		BearerToken     string `json:"bearerToken"`
		TLSClientConfig struct {
			CAData []byte `json:"caData"`
		} `json:"tlsClientConfig"`
	}
	if err := json.Unmarshal(texts["config"], &config); err != nil {
		return nil, nil, err
	}
	server, err := url.Parse(string(texts["server"]))
	return server, &rest.Config{
		BearerToken:     config.BearerToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: config.TLSClientConfig.CAData},
	}, err
}
