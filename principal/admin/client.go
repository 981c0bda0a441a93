package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
)

// ErrSilent says that nothing answers where the principal should.
var ErrSilent = errors.New("nothing answers there")

// errLate is the cause of requests that are given up: whoever has taken them says nothing.
var errLate = fmt.Errorf("%w in time", ErrSilent)

// maxAnswer is the size of the largest answer, in bytes: the plan of an agent with 30,000 Applications of
// which each differs, and more than ten times the state of 10,000 agents. maxFailure is that of the largest
// that only says what is wrong. What answers may be anybody, and is held in memory until it is whole.
const (
	maxAnswer  = 64 << 20
	maxFailure = 64 << 10
)

// A Client asks a principal. Its methods return errors that are Failed, ErrSilent, or of
// the request's context.
type Client struct {
	base  string
	http  *http.Client
	limit time.Duration // of a request that says none itself
	most  int64         // the size of the largest answer
}

// Failed is what a principal answers that does not do what it was asked.
type Failed struct {
	Code int // of HTTP
	Text string
}

// Error implements error.
func (f *Failed) Error() string { return f.Text }

// NewClient returns a Client of the principal at http://host:port or unix:///path.
func NewClient(address string) (*Client, error) {
	t := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	c := &Client{base: strings.TrimSuffix(address, "/"), http: &http.Client{Transport: t}, limit: time.Minute, most: maxAnswer}
	if strings.HasPrefix(address, Unix) {
		_, path, err := Address(address)
		if err != nil {
			return nil, err
		}
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		c.base = "http://" + socketHost
		return c, nil
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, fmt.Errorf("%q is no address of a principal", address)
	}
	return c, nil
}

// Agents returns how all agents stand.
func (c *Client) Agents(ctx context.Context) (out Agents, err error) {
	return out, c.get(ctx, "/v1/agents", &out)
}

// Agent returns how one agent stands.
func (c *Client) Agent(ctx context.Context, name string) (out Agent, err error) {
	return out, c.get(ctx, "/v1/agents/"+url.PathEscape(name), &out)
}

// Approve approves the deletions that a says are held. If by now they are others it fails,
// with code 409.
func (c *Client) Approve(ctx context.Context, a Agent) (out Approved, err error) {
	return out, c.post(ctx, "/v1/agents/"+url.PathEscape(a.Name)+"/approve-deletions", Approval{a.HeldOf}, &out)
}

// Release lets the deletions go that a says wait for its agent. If by now they are others, or
// the agent is there, it fails, with code 409.
func (c *Client) Release(ctx context.Context, a Agent, reason string) (out Released, err error) {
	return out, c.post(ctx, "/v1/agents/"+url.PathEscape(a.Name)+"/release-deletions", Release{a.WaitingOf, reason}, &out)
}

// Verify compares both sides of the link to an agent, and tells of differences that are
// there for longer than settle.
func (c *Client) Verify(ctx context.Context, agent string, settle time.Duration) (out Verdict, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settle+5*time.Minute, errLate)
	defer cancel()
	return out, c.get(ctx, "/v1/agents/"+url.PathEscape(agent)+"/verify?"+url.Values{"settle": {settle.String()}}.Encode(), &out)
}

// Plan returns what an agent would change on its cluster.
func (c *Client) Plan(ctx context.Context, agent string) (out Plan, err error) {
	return out, c.get(ctx, "/v1/agents/"+url.PathEscape(agent)+"/plan", &out)
}

// Explain returns what has become of the changes of an object, as the hub names it. Its
// namespace and the agent may be "", for any.
func (c *Client) Explain(ctx context.Context, o Object, agent string) (out Explanations, err error) {
	q := url.Values{"kind": {o.Kind}, "namespace": {o.Namespace}, "name": {o.Name}, "agent": {agent}}
	return out, c.get(ctx, "/v1/explain?"+q.Encode(), &out)
}

// Adopt has an agent that observes do what a says.
func (c *Client) Adopt(ctx context.Context, agent string, a Adoption) (out inquiry.Adopted, err error) {
	return out, c.post(ctx, "/v1/agents/"+url.PathEscape(agent)+"/adopt", a, &out)
}

// Letters returns the dead letters of an agent, or of all if its name is "".
func (c *Client) Letters(ctx context.Context, agent string) (out Letters, err error) {
	return out, c.get(ctx, "/v1/letters?"+url.Values{"agent": {agent}}.Encode(), &out)
}

// Letter returns a letter with its event. Of l there must be Agent, Side and ID.
func (c *Client) Letter(ctx context.Context, l Letter) (out Letter, err error) {
	return out, c.get(ctx, pathOf(l), &out)
}

// Retry has what l is about tried again.
func (c *Client) Retry(ctx context.Context, l Letter) error {
	return c.post(ctx, pathOf(l)+"/retry", struct{}{}, &struct{}{})
}

// Drop removes l.
func (c *Client) Drop(ctx context.Context, l Letter) error {
	return c.post(ctx, pathOf(l)+"/drop", struct{}{}, &struct{}{})
}

func pathOf(l Letter) string {
	return "/v1/agents/" + url.PathEscape(l.Agent) + "/letters/" + url.PathEscape(l.Side) + "/" + url.PathEscape(l.ID)
}

func (c *Client) get(ctx context.Context, path string, to any) error {
	return c.ask(ctx, http.MethodGet, path, nil, to)
}

func (c *Client) post(ctx context.Context, path string, from, to any) error {
	body, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("admin: ask the principal: %w", err)
	}
	return c.ask(ctx, http.MethodPost, path, bytes.NewReader(body), to)
}

func (c *Client) ask(ctx context.Context, method, path string, body io.Reader, to any) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.limit, errLate)
		defer cancel()
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return fmt.Errorf("admin: ask the principal: %w", err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
			err = fmt.Errorf("%w: %w", ErrSilent, dial.Err)
		} else if context.Cause(ctx) == errLate {
			err = errLate
		} else if errors.Is(err, io.EOF) {
			err = ErrSilent // it is forwarded to where nobody is
		}
		return fmt.Errorf("admin: ask the principal: %w", err)
	}
	defer response.Body.Close()
	most := c.most
	if response.StatusCode != http.StatusOK {
		most = maxFailure
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	if err != nil {
		return fmt.Errorf("admin: read the principal's answer: %w", err)
	}
	if int64(len(text)) > most {
		return fmt.Errorf("admin: the answer is larger than any of a principal: more than %d KiB", most>>10)
	}
	if response.StatusCode != http.StatusOK {
		var f Failure
		if json.Unmarshal(text, &f) != nil || f.Error == "" {
			f.Error = "admin: what answers there is no principal: " + response.Status
		}
		return &Failed{response.StatusCode, f.Error}
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("admin: read the principal's answer: %w", err)
	}
	return nil
}
