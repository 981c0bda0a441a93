package inquiry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// Service is the name of the streams on which an agent answers.
const Service = "inquiry"

// What is said over HTTP, as JSON:
//
//	GET  /v1/standing?has=…      Standing; has is what Standing.Has is of the agent's own table
//	GET  /v1/cluster             a Cluster a line: the one that is known, and each that is another
//	GET  /v1/objects?brief=true  an object a line
//	POST /v1/objects             keys, answered by an object a line
//	GET  /v1/letters             a letter a line, without its event
//	GET  /v1/letters/{id}        a letter
//	POST /v1/letters/{id}/retry  {}, answered by {}
//	POST /v1/letters/{id}/drop   {}, answered by {}
//	GET  /v1/story?kind=…&namespace=…&name=…   Story
//	GET  /v1/plan                Plan without steps, then a Step a line
//	POST /v1/adopt               adoption, answered by Adopted
//
// What fails is answered by a failure.

type failure struct {
	Error string `json:"error"`
}

// A key names an object.
type key struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// A Standing says how an agent stands, as it sees that itself.
type Standing struct {
	Mode        string `json:"mode,omitempty"` // in which it runs, whatever it is registered in; "" is that its program does not say
	InStep      bool   `json:"inStep"`         // it has the whole of the principal's table
	Rows        int    `json:"rows"`           // in its own table
	Copied      int    `json:"copied"`         // rows of the principal's table that it knows
	Retrying    int    `json:"retrying"`       // objects whose last write failed, and will be tried again
	DeadLetters int    `json:"deadLetters"`    // what it cannot take in or hand over
	Observing   bool   `json:"observing"`      // it writes only what is adopted
	Withheld    int    `json:"withheld"`       // objects that it would write, did it not observe
	Error       string `json:"error,omitempty"`

	// Has names the newest whole table of the principal's that it has had, see engine.Whole; ""
	// is none, or one that does not say.
	Has string `json:"has,omitempty"`
	// Backlog is how many rows of its own the principal is not known to have, and Lag for how many
	// seconds the oldest of them has waited.
	Backlog int     `json:"backlog,omitempty"`
	Lag     float64 `json:"lag,omitempty"`
	// Sure says that there were no others before its process began.
	Sure bool `json:"sure,omitempty"`
}

// Config says what is answered. All of it but Cluster and Story is needed.
type Config struct {
	// Objects returns what the agent's store holds by now, keyed as on the link.
	Objects func(context.Context) ([]resource.Object, error)
	// Strangers says that objects which are nobody's copy are the agent's own affair: of
	// them no more is told than that their names are taken.
	Strangers bool
	Letters   Letters
	// Standing returns how the agent stands. The principal says to have had that table of its.
	Standing func(ctx context.Context, has string) Standing
	// Cluster returns what is known of the agent's cluster once it is another than after; nil
	// is any. If it is nil, nothing is ever known.
	Cluster func(ctx context.Context, after *Cluster) (Cluster, error)
	Changed func(what string, l ledger.Letter) // is told of what was done about a letter
	Plan    func(context.Context) (Plan, error)
	// Story returns what is known of an object, by its key on the link. If it is nil, that is never told.
	Story func(context.Context, resource.Key) (Story, error)
	Adopt func(context.Context, Adoption) (Adopted, error)
}

// readers is how many callers may read all objects at once.
const readers = 2

// A Server answers a principal.
type server struct {
	cfg     Config
	reading chan struct{}
}

// Handler answers what c says, and nothing else.
func Handler(c Config) http.Handler {
	s := &server{c, make(chan struct{}, readers)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/standing", s.answer(func(r *http.Request) (any, error) {
		return c.Standing(r.Context(), short(r.FormValue("has"))), nil
	}))
	mux.HandleFunc("GET /v1/plan", s.plan)
	mux.HandleFunc("POST /v1/adopt", s.answer(s.adopt))
	if c.Cluster != nil {
		mux.HandleFunc("GET /v1/cluster", s.cluster)
	}
	if c.Story != nil {
		mux.HandleFunc("GET "+storyPath, s.answer(s.story))
	}
	mux.HandleFunc("GET /v1/objects", s.objects)
	mux.HandleFunc("POST /v1/objects", s.objects)
	mux.HandleFunc("GET /v1/letters", s.letters)
	mux.HandleFunc("GET /v1/letters/{id}", s.answer(func(r *http.Request) (any, error) { return c.Letters.Get(r.Context(), r.PathValue("id")) }))
	mux.HandleFunc("POST /v1/letters/{id}/{change}", s.answer(s.change))
	return http.MaxBytesHandler(mux, maxQuestion)
}

// maxQuestion is the size of the largest question, in bytes.
const maxQuestion = 1 << 20

func (s *server) answer(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if err != nil {
			fail(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(v) // the caller has gone
	}
}

func fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch {
	case errors.Is(err, ErrNoLetter):
		code = http.StatusNotFound
	case errors.Is(err, ErrNotObserving), errors.Is(err, ErrNoObject), errors.Is(err, ErrNotAdopted):
		code = http.StatusConflict
	case errors.Is(err, errBusy):
		code = http.StatusServiceUnavailable
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(failure{err.Error()}) // the caller has gone
}

// errBusy says that others read.
var errBusy = errors.New("inquiry: others read the agent's objects now")

// objects answers with all objects, or those that the question names.
func (s *server) objects(w http.ResponseWriter, r *http.Request) {
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	default:
		fail(w, errBusy)
		return
	}
	wanted := map[key]bool{}
	if r.Method == http.MethodPost {
		var keys []key
		if err := json.NewDecoder(r.Body).Decode(&keys); err != nil {
			fail(w, fmt.Errorf("inquiry: read question: %w", err))
			return
		}
		for _, k := range keys {
			wanted[k] = true
		}
	}
	all, err := s.cfg.Objects(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	brief, lines := r.URL.Query().Get("brief") == "true", json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	for _, o := range all {
		if r.Method == http.MethodPost && !wanted[key{string(o.Key.Kind), o.Key.Namespace, o.Key.Name}] {
			continue
		}
		if lines.Encode(pack(s.told(o, brief))) != nil {
			return // the caller has gone
		}
	}
}

// told returns what is told of an object.
func (s *server) told(o resource.Object, brief bool) resource.Object {
	switch {
	case s.cfg.Strangers && o.Origin == resource.Origin{}:
		return resource.Object{Key: o.Key, UID: o.UID, Excluded: o.Excluded}
	case brief:
		return Brief(o)
	}
	return o
}

func (s *server) letters(w http.ResponseWriter, r *http.Request) {
	all, err := s.cfg.Letters.List(r.Context())
	if err != nil {
		fail(w, err)
		return
	}
	lines := json.NewEncoder(w)
	for _, l := range all {
		if lines.Encode(l) != nil {
			return // the caller has gone
		}
	}
}

// change does something about a letter.
func (s *server) change(r *http.Request) (any, error) {
	id, what := r.PathValue("id"), r.PathValue("change")
	l, err := s.cfg.Letters.Get(r.Context(), id)
	if err != nil {
		return nil, err
	}
	switch what {
	case "retry":
		err = s.cfg.Letters.Retry(r.Context(), id)
	case "drop":
		err = s.cfg.Letters.Drop(r.Context(), id)
	default:
		err = fmt.Errorf("inquiry: nothing is known of %q", what)
	}
	if err == nil {
		s.cfg.Changed(what, l)
	}
	return struct{}{}, err
}
