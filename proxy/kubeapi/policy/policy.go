package policy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/argocd-fabric/argocd-agent/proxy/kubeapi/status"
)

// patience is how long the look-ups for one request may take.
const patience = 10 * time.Second

// Config says what a Policy is for.
type Config struct {
	Terms
	Namespace  string                      // of Argo CD, whose Applications count
	Namespaces func(namespace string) bool // whether those of another namespace count; nil is none
	Objects    Objects
	Log        *zap.Logger
}

// A Policy decides on requests. It is safe for concurrent use.
type Policy struct {
	terms   Terms
	tracker tracker
	log     *zap.Logger
}

// New returns a Policy.
func New(cfg Config) (*Policy, error) {
	if cfg.Namespace == "" || cfg.Objects == nil || cfg.Log == nil {
		return nil, errors.New("policy: Namespace, Objects and Log are needed")
	}
	others := cfg.Namespaces
	if others == nil {
		others = func(string) bool { return false }
	}
	return &Policy{
		terms:   cfg.Terms,
		tracker: tracker{objects: cfg.Objects, home: cfg.Namespace, others: others},
		log:     cfg.Log,
	}, nil
}

// Guard returns a handler that has next serve what the policy lets pass, and answers all else by
// a Status: 403 with the name of the rule and what would allow it, 404 where there is no such
// object, and 503 where it could not be found out. A request that passes reaches next as it came,
// but for a body that was read, the UID that it may touch, and the form in which Secrets are
// asked for. Guard expects headers of identity and hop-by-hop headers to be gone.
func (p *Policy) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := Parse(r.Method, r.URL)
		if err != nil {
			q = Request{Verb: strings.ToLower(r.Method), Path: r.URL.Path}
			p.refuse(w, r, q, refusal{Rule{Name: "path", Why: err.Error()}, ""})
			return
		}
		r = r.Clone(r.Context())
		r.URL.RawPath = "" // there is one way to read it
		looking, stop := context.WithTimeout(r.Context(), patience)
		pass, err := p.judge(looking, r, q)
		var sensitive []string
		if err == nil && q.secret() {
			var s Settings
			s, err = p.tracker.settings(looking)
			sensitive = s.Sensitive
		}
		stop()
		switch {
		case err != nil:
			p.refuse(w, r, q, err)
		case pass.answer != nil:
			pass.answer(w)
		case q.secret():
			masked(w, r, sensitive, next)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// A passage is how a request passes: by a rule, and to next unless there is an answer.
type passage struct {
	answer func(http.ResponseWriter)
}

// A refusal is the error of a request that a rule does not let pass.
type refusal struct {
	rule  Rule
	allow string // what would let it pass; may be empty
}

// Error implements error.
func (r refusal) Error() string {
	text := fmt.Sprintf("rule %s: %s", r.rule.Name, r.rule.Why)
	if r.allow != "" {
		text += "; the agent allows it with " + r.allow
	}
	return text
}

// judge decides on a request, and puts into it what keeps it to what was decided on.
func (p *Policy) judge(ctx context.Context, r *http.Request, q Request) (passage, error) {
	var k Kind
	if q.Path == "" {
		var err error
		if k, err = p.tracker.objects.Kind(ctx, schema.GroupVersionResource{Group: q.Group, Version: q.Version, Resource: q.Resource}); err != nil {
			return passage{}, err
		}
	}
	rule := Decide(q, k.Kind.Kind, p.terms)
	p.log.Debug("a live request", zap.Stringer("request", q), zap.String("rule", rule.Name))
	c := request{Request: q, http: r, kind: k, rule: rule}
	switch rule.Then {
	case Nothing:
		return passage{}, nil
	case Managed:
		return passage{}, p.object(ctx, c)
	case Tracked:
		return passage{}, p.made(ctx, c)
	case Known:
		return p.events(ctx, c)
	}
	return passage{}, refusal{rule, rule.advice(q, k.Kind.Kind)}
}

// A request that is decided on, by a rule.
type request struct {
	Request
	http *http.Request
	kind Kind
	rule Rule
}

// unmanaged refuses a request for an object that is not managed.
func (c request) unmanaged(why string) refusal {
	return refusal{Rule{Name: c.rule.Name, Why: why}, Rule{Allowance: "{kind}"}.advice(c.Request, c.kind.Kind.Kind)}
}

// namespace returns that of the object, of which there is none if its kind is in none.
func (c request) namespace() string {
	if c.kind.Namespaced {
		return c.Namespace
	}
	return ""
}

// object lets a request pass if its object is managed. What it changes, it changes of that one.
func (p *Policy) object(ctx context.Context, c request) error {
	o, err := p.tracker.objects.Get(ctx, c.kind, c.namespace(), c.Name)
	if apierrors.IsNotFound(err) && c.Verb == "patch" && c.Subresource == "" && applies(c.http) {
		return p.made(ctx, c)
	}
	if err != nil {
		return err
	}
	managed, err := p.tracker.managed(ctx, c.kind, o)
	if err != nil {
		return err
	}
	if !managed {
		return c.unmanaged("no Application of this cluster manages the object")
	}
	if c.Verb != "patch" && c.Verb != "delete" {
		return nil
	}
	d, err := read(c.http)
	if err != nil {
		return err
	}
	switch {
	case c.Verb == "delete":
		err = d.deleting(c.Query, o.UID)
	case c.Subresource == "status":
		// The status of a custom resource is written whatever the UID, but not over a change.
		err = d.require(o.UID, o.ResourceVersion)
	default:
		err = d.require(o.UID, "")
	}
	if err != nil {
		return err
	}
	return d.write(c.http)
}

// made lets a request pass if what its body makes is managed.
func (p *Policy) made(ctx context.Context, c request) error {
	d, err := read(c.http)
	if err != nil {
		return err
	}
	o, err := d.metadata(c.namespace())
	if err != nil {
		return err
	}
	if o.Name == "" {
		o.Name = c.Name // of what is applied
	}
	managed, err := p.tracker.managed(ctx, c.kind, o)
	if err != nil {
		return err
	}
	if !managed {
		return c.unmanaged("what is made has neither the tracking id of an Application of this cluster nor an owner that such a one manages")
	}
	return d.write(c.http)
}

// applies reports whether a request is a server-side apply, which makes what is not there.
func applies(r *http.Request) bool {
	return mediaType(r) == string(types.ApplyYAMLPatchType)
}

// answers are the codes and reasons of what can be wrong with a body.
var answers = []struct {
	err    error
	code   int
	reason metav1.StatusReason
}{
	{errTooLarge, http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge},
	{errType, http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType},
	{errBody, http.StatusBadRequest, metav1.StatusReasonBadRequest},
	{errOther, http.StatusConflict, metav1.StatusReasonConflict},
	{ErrNoKind, http.StatusNotFound, metav1.StatusReasonNotFound},
}

// refuse answers a request that does not pass.
func (p *Policy) refuse(w http.ResponseWriter, r *http.Request, q Request, err error) {
	text := "live access: " + q.String() + ": " + err.Error()
	var no refusal
	if errors.As(err, &no) {
		p.log.Info("refused a live request", zap.Stringer("request", q), zap.String("rule", no.rule.Name), zap.String("why", no.rule.Why))
		status.Write(w, http.StatusForbidden, metav1.StatusReasonForbidden, text, 0)
		return
	}
	for _, a := range answers {
		if errors.Is(err, a.err) {
			status.Write(w, a.code, a.reason, text, 0)
			return
		}
	}
	switch {
	case r.Context().Err() != nil: // nobody hears it
	case apierrors.IsNotFound(err):
		status.Write(w, http.StatusNotFound, metav1.StatusReasonNotFound, text, 0)
		return
	case apierrors.IsForbidden(err):
		no = refusal{Rule{Name: "rights", Why: "the agent's own rights do not reach so far, see deploy/agent/live: " + err.Error()}, ""}
		p.refuse(w, r, q, no)
		return
	default:
		p.log.Warn("cannot find out whether a live request may pass", zap.Stringer("request", q), zap.Error(err))
	}
	status.Write(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, text, time.Second)
}
