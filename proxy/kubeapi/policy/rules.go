package policy

import (
	"slices"
	"strings"
)

// A Rule says what becomes of the requests that it fits.
type Rule struct {
	Name      string // by which a refusal names it
	Verbs     string // with spaces between; empty is all
	What      string // patterns with spaces between; empty is what is no resource
	When      When   // what else must be so for the rule to fit
	Then      Need   // what must be so for the request to pass
	Why       string // what a refusal says
	Allowance string // the entry of an Allow that would let it pass: {kind} is the kind that is asked for
}

// When is what a rule depends on beside the request.
type When struct {
	Word     string // fits only if this word is not allowed; with Yes, only if it is
	Yes      bool
	Kind     bool // fits only if the kind is allowed
	ReadOnly bool // fits only where nothing may be written
}

// Need is what must be so for a request to pass.
type Need int

// What a request may need.
const (
	Refused Need = iota // it never passes
	Nothing             // it passes
	Managed             // its object is managed
	Tracked             // what its body makes is managed
	Known               // the events that it selects are of a managed object
)

// rules are read top down: the first that fits decides, and one fits every request. A pattern in
// What is resource.group/subresource, as RBAC writes it; a star is any resource, or any resource of a
// group, and a subresource that is a star is also none. Without one only the object itself is meant.
var rules = []Rule{
	{Name: "discovery", Verbs: "get", What: "/api /apis /version /openapi", Then: Nothing},
	{Name: "path", What: "/", Why: "of what is no resource only discovery, openapi and version are read"},

	// What would make of one right another is left to nobody, whatever is allowed.
	{Name: "escalation", What: "serviceaccounts/token */proxy */binding bindings */finalize */approval *.authentication.k8s.io/*", Why: "it would give rights that the agent does not mean to give"},
	{Name: "escalation", Verbs: "create update patch deletecollection", What: "*.rbac.authorization.k8s.io/* *.certificates.k8s.io/* *.admissionregistration.k8s.io/* *.apiregistration.k8s.io/*", Why: "it would give rights that the agent does not mean to give; deploy it by an Application"},
	{Name: "secret-write", Verbs: "create update patch", What: "secrets/*", Why: "Secrets are read with their values masked, and deleted, but not written; deploy them by an Application"},

	{Name: "exec", What: "pods/exec", When: When{Word: execWord}, Why: "commands in pods are off", Allowance: execWord},
	{Name: "attach", What: "pods/attach", When: When{Word: attachWord}, Why: "to attach to pods is off", Allowance: attachWord},
	{Name: "port-forward", What: "pods/portforward", When: When{Word: forwardWord}, Why: "ports of pods are not forwarded", Allowance: forwardWord},
	{Name: "debug", What: "pods/ephemeralcontainers", When: When{Word: execWord}, Why: "a container in a pod is as good as a command", Allowance: "exec,{kind}"},

	{Name: "allowed", What: "*/*", When: When{Kind: true}, Then: Nothing},

	{Name: "exec", Verbs: "get create", What: "pods/exec", When: When{Word: execWord, Yes: true}, Then: Managed},
	{Name: "attach", Verbs: "get create", What: "pods/attach", When: When{Word: attachWord, Yes: true}, Then: Managed},
	{Name: "port-forward", Verbs: "get create", What: "pods/portforward", When: When{Word: forwardWord, Yes: true}, Then: Managed},

	{Name: "events", Verbs: "list watch", What: "events", Then: Known},
	{Name: "list", Verbs: "list watch deletecollection", What: "*/*", Why: "of many objects at once only events are read, those of one managed object", Allowance: "{kind}"},
	{Name: "log", Verbs: "get", What: "pods/log", Then: Managed},
	{Name: "read", Verbs: "get", What: "* */status */scale", Then: Managed},
	{Name: "autonomous", When: When{ReadOnly: true}, What: "*/*", Why: "an autonomous agent is only read from", Allowance: "{kind}"},
	{Name: "create", Verbs: "create", What: "*", Then: Tracked},
	{Name: "patch", Verbs: "patch", What: "* */status */scale", Then: Managed},
	{Name: "delete", Verbs: "delete", What: "*", Then: Managed},
	{Name: "other", What: "*/*", Why: "it is nothing that Argo CD asks for", Allowance: "{kind}"},
}

// Terms are what a spoke's operator has said.
type Terms struct {
	Allow    Allow
	ReadOnly bool // nothing is written unless Allow says so: the agent is autonomous
}

// Decide returns the rule that decides of a request for a kind; kind is empty where no resource
// is asked for.
func Decide(r Request, kind string, t Terms) Rule {
	i := slices.IndexFunc(rules, func(u Rule) bool { return u.fits(r, kind, t) })
	if i < 0 {
		return Rule{Name: "none", Why: "no rule fits"} // which a test holds not to be
	}
	return rules[i]
}

func (u Rule) fits(r Request, kind string, t Terms) bool {
	if u.Verbs != "" && !slices.Contains(strings.Fields(u.Verbs), r.Verb) {
		return false
	}
	w := u.When
	if w.Word != "" && t.Allow.word(w.Word) != w.Yes || w.Kind && !t.Allow.kind(r.Group, kind) || w.ReadOnly && !t.ReadOnly {
		return false
	}
	return slices.ContainsFunc(strings.Fields(u.What), r.is)
}

// is reports whether a pattern means what is asked for.
func (r Request) is(pattern string) bool {
	if strings.HasPrefix(pattern, "/") || r.Path != "" {
		below := strings.TrimSuffix(pattern, "/") + "/"
		return r.Path != "" && (r.Path == pattern || strings.HasPrefix(r.Path, below))
	}
	object, sub, _ := strings.Cut(pattern, "/")
	resource, group, inGroup := strings.Cut(object, ".")
	asked, _, _ := strings.Cut(r.Subresource, "/")
	return (resource == "*" || resource == r.Resource) &&
		(group == r.Group || resource == "*" && !inGroup) &&
		(sub == "*" || sub == asked)
}

// advice returns what would let the request pass, empty if nothing would.
func (u Rule) advice(r Request, kind string) string {
	if u.Allowance == "" || kind == "" {
		return ""
	}
	return "--live-allow=" + strings.ReplaceAll(u.Allowance, "{kind}", named(r.Group, kind))
}
