package fleet

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// App returns the name of an Application of an agent.
func App(app int) string { return fmt.Sprint("app-", app) }

// appNamed is the inverse of App.
func appNamed(name string) (app int, err error) {
	_, err = fmt.Sscanf(name, "app-%d", &app)
	return app, err
}

// Spec returns the spec of an Application, of about 1 KiB, that carries the number of a change.
func Spec(n int) string {
	return resource.Canonical(map[string]any{
		"project":     "default",
		"destination": map[string]any{"name": "in-cluster", "namespace": "guestbook"},
		"source": map[string]any{
			"repoURL":        "https://git.example.com/apps.git",
			"path":           "guestbook",
			"targetRevision": fmt.Sprint(n),
			"helm":           map[string]any{"values": strings.Repeat("replicas: 3\n", 64)},
		},
		"syncPolicy": map[string]any{"automated": map[string]any{"prune": true, "selfHeal": true}},
	})
}

// Number returns the number that the spec of an Application carries.
func Number(o resource.Object) (int, error) {
	return numberAfter(o.Parts[resource.Spec], `"targetRevision":"`)
}

// Status returns the status of an Application of so many resources that carries the number of
// a change. By that number one resource's health, and with it the whole one's, is another than
// in the status before.
func Status(n, resources int) string {
	health := func(bad bool) map[string]any {
		return map[string]any{"status": map[bool]string{false: "Healthy", true: "Progressing"}[bad]}
	}
	var all []any
	for i := range resources {
		all = append(all, map[string]any{
			"group": "apps", "kind": "Deployment", "namespace": "guestbook", "name": fmt.Sprintf("web-%02d", i),
			"version": "v1", "status": "Synced", "health": health(n%2 == 1 && i == n/2%resources),
		})
	}
	return resource.Canonical(map[string]any{
		"health":       health(n%2 == 1),
		"sync":         map[string]any{"status": "Synced", "revision": "3f786850e387550fdab836ed7e6dc881de23001b"},
		"summary":      map[string]any{"images": []any{"registry.example.com/web:" + fmt.Sprint(n)}},
		"reconciledAt": "2026-01-02T15:04:05Z",
		"resources":    all,
	})
}

// StatusNumber returns the number that the status of an Application carries; 0 is none.
func StatusNumber(o resource.Object) int {
	n, _ := numberAfter(o.Parts[resource.Status], `"registry.example.com/web:`)
	return n
}

// numberAfter returns the number that stands between a mark and a quotation mark.
func numberAfter(text, mark string) (int, error) {
	_, rest, _ := strings.Cut(text, mark)
	digits, _, _ := strings.Cut(rest, `"`)
	return strconv.Atoi(digits)
}

// ParseApp returns which Application a key is.
func ParseApp(k resource.Key) (app int, err error) { return appNamed(k.Name) }
