package promql

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template/parse"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// monitoring is where what is tested is.
const monitoring = "../../deploy/monitoring"

// common are labels that whoever scrapes gives to every series, or that make a histogram.
var common = []string{"job", "instance", "le"}

// metrics returns the labels of every metric in the table, by name. A histogram is three.
func metrics(t *testing.T) map[string][]string {
	text, err := os.ReadFile("../../cli/metrics/METRICS.md")
	require.NoError(t, err)
	out := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z]+) \\| ([a-z, ]*) \\|").FindAllStringSubmatch(string(text), -1) {
		labels := slices.DeleteFunc(strings.Split(strings.ReplaceAll(row[3], " ", ""), ","), func(l string) bool { return l == "" })
		suffixes := []string{""}
		if row[2] == "histogram" {
			suffixes = []string{"_bucket", "_sum", "_count"}
		}
		for _, suffix := range suffixes {
			out[row[1]+suffix] = labels
		}
	}
	require.Greater(t, len(out), 30)
	return out
}

// fits holds that an expression is one, and names only what there is. It returns the metrics that
// it names, and the labels that what it yields may have.
func fits(t *testing.T, all map[string][]string, text string) (named, labels []string) {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	require.NoError(t, err, text)
	labels = slices.Clone(common)
	var used []string
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			has, ok := all[n.Name]
			require.True(t, ok, "%s: there is no metric %s", text, n.Name)
			named, labels = append(named, n.Name), append(labels, has...)
			for _, m := range n.LabelMatchers {
				if m.Name != "__name__" {
					require.Contains(t, append(slices.Clone(common), has...), m.Name, "%s: %s has no such label", text, n.Name)
				}
			}
		case *parser.AggregateExpr:
			used = append(used, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				used = append(used, n.VectorMatching.MatchingLabels...)
			}
		}
		return nil
	})
	for _, l := range used {
		require.Contains(t, labels, l, text)
	}
	return named, labels
}

// A rule is one of an alert.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func TestRulesNameWhatThereIs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(monitoring, "rules.yaml"))
	require.NoError(t, err)
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.UnmarshalStrict(text, &file))
	all, seen := metrics(t), map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			t.Run(r.Alert, func(t *testing.T) {
				require.False(t, seen[r.Alert], "it is there twice")
				seen[r.Alert] = true
				named, labels := fits(t, all, r.Expr)
				require.NotEmpty(t, named)
				require.Contains(t, []string{"warning", "critical"}, r.Labels["severity"])
				if r.For != "" {
					_, err := time.ParseDuration(r.For)
					require.NoError(t, err)
				}
				for _, name := range []string{"summary", "description"} {
					require.NotEmpty(t, r.Annotations[name])
					for _, l := range shown(t, r.Annotations[name]) {
						require.Contains(t, labels, l, r.Annotations[name])
					}
				}
			})
		}
	}
	for _, cause := range []string{"Away", "Lag", "DeadLetters", "HeldDeletions", "CertificateExpires", "PeerCertificateExpires", "StoreTrouble", "Quota"} {
		require.True(t, seen["ArgoCDAgent"+cause], cause)
	}
}

// shown returns the labels that a template shows.
func shown(t *testing.T, text string) (labels []string) {
	t.Helper()
	_, err := parse.Parse("annotation", "{{$labels := 0}}{{$value := 0}}"+text, "{{", "}}", map[string]any{"humanizeDuration": func() {}})
	require.NoError(t, err)
	for _, m := range regexp.MustCompile(`\$labels\.([a-z_]+)`).FindAllStringSubmatch(text, -1) {
		labels = append(labels, m[1])
	}
	return labels
}

// A dashboard is what of Grafana's is looked at.
type dashboard struct {
	UID        string `json:"uid"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		GridPos struct {
			X, Y, W, H int
		} `json:"gridPos"`
		Targets []struct {
			Expr         string `json:"expr"`
			LegendFormat string `json:"legendFormat"`
		} `json:"targets"`
	} `json:"panels"`
}

func TestDashboardsNameWhatThereIs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(monitoring, "dashboard-*.json"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	all, unseen := metrics(t), map[string]bool{}
	for name := range all {
		unseen[name] = true
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			var d dashboard
			require.NoError(t, json.Unmarshal(text, &d))
			vars, ids := []string{"__rate_interval"}, map[int]bool{}
			for _, v := range d.Templating.List {
				vars = append(vars, v.Name)
				if q, ok := v.Query.(map[string]any); ok {
					m := regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`).FindStringSubmatch(q["query"].(string))
					require.Len(t, m, 3)
					_, labels := fits(t, all, m[1])
					require.Contains(t, labels, m[2])
				}
			}
			for _, p := range d.Panels {
				require.False(t, ids[p.ID])
				ids[p.ID] = true
				require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
				require.NotEmpty(t, p.Targets, p.Title)
				for _, target := range p.Targets {
					for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
						require.Contains(t, vars, v[1], target.Expr)
					}
					named, labels := fits(t, all, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
					for _, l := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
						require.Contains(t, labels, l[1], target.Expr)
					}
					for _, name := range named {
						delete(unseen, name)
					}
				}
			}
		})
	}
	require.NotContains(t, unseen, "argocd_agent_lag_seconds")
	require.Less(t, len(unseen), 10, "most of what there is to see is shown: %v", unseen)
}

// TestItCanFail holds that what is not there is noticed.
func TestItCanFail(t *testing.T) {
	all := metrics(t)
	_, ok := all["argocd_agent_no_such"]
	require.False(t, ok)
	require.Equal(t, []string{"agent", "direction"}, all["argocd_agent_lag_seconds"])
	_, err := parser.NewParser(parser.Options{}).ParseExpr("sum by (agent argocd_agent_rows")
	require.Error(t, err)
}
