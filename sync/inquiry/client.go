package inquiry

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/argocd-fabric/argocd-agent/sync/ledger"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// What an agent may answer at most. Whatever is more is an error: agents are not trusted.
const (
	MaxObjects = 100_000
	MaxKept    = 128 << 20 // bytes of all objects, as the caller keeps them
	maxAll     = 2 << 30   // bytes of one answer
	maxLine    = 8 << 20   // bytes of one line of it
	maxText    = 4 << 10   // bytes of a text of a letter
	MaxKeys    = 50        // that are asked for by name at once
)

// patience is for how long an agent may say nothing.
const patience = 30 * time.Second

// A Client asks an agent's process. It is also its Letters. Errors are ErrNoLetter, those of
// dial, or of what was asked.
type Client struct {
	http   *http.Client
	listen *http.Client // for answers that may pause for as long as they like
	limits limits
}

// limits are MaxObjects and MaxKept.
type limits struct{ objects, kept int }

var _ Letters = (*Client)(nil)

// NewClient returns a Client that asks over streams of Service, which dial opens: one for
// each question.
func NewClient(dial func(context.Context) (net.Conn, error)) *Client {
	hastily := func(ctx context.Context) (net.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return hasty{c}, nil
	}
	return &Client{limits: limits{MaxObjects, MaxKept}, http: over(hastily), listen: over(dial)}
}

// over returns a client that asks over streams which dial opens.
func over(dial func(context.Context) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			DisableKeepAlives: true, DisableCompression: true, ResponseHeaderTimeout: patience, MaxResponseHeaderBytes: 16 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A hasty stream ends when nothing comes for longer than patience.
type hasty struct{ net.Conn }

// Read implements net.Conn.
func (h hasty) Read(b []byte) (int, error) {
	_ = h.SetReadDeadline(time.Now().Add(patience)) // it fails where the peer has closed, and then Read does not wait
	return h.Conn.Read(b)
}

// Standing returns how the agent stands. It is told which table of its the caller has had.
func (c *Client) Standing(ctx context.Context, has string) (out Standing, err error) {
	err = c.one(ctx, http.MethodGet, "/v1/standing?"+url.Values{"has": {has}}.Encode(), nil, &out)
	out.Error, out.Has, out.Backlog, out.Lag = short(out.Error), short(out.Has), max(out.Backlog, 0), max(out.Lag, 0)
	return out, err
}

// Objects returns all that the agent has, as keep makes it of what is read: parts are given
// to it whole, or as Brief has them. keep is called from one goroutine.
func (c *Client) Objects(ctx context.Context, brief bool, keep func(resource.Object) resource.Object) ([]resource.Object, error) {
	return c.objects(ctx, http.MethodGet, "/v1/objects?brief="+fmt.Sprint(brief), nil, c.limits.objects, keep)
}

// Whole returns those objects whole that the agent has of up to MaxKeys keys.
func (c *Client) Whole(ctx context.Context, keys []resource.Key) ([]resource.Object, error) {
	if len(keys) > MaxKeys {
		return nil, fmt.Errorf("inquiry: %d objects are too many to ask for", len(keys))
	}
	names := make([]key, 0, len(keys))
	for _, k := range keys {
		names = append(names, key{string(k.Kind), k.Namespace, k.Name})
	}
	question, err := json.Marshal(names)
	if err != nil {
		return nil, fmt.Errorf("inquiry: ask for objects: %w", err)
	}
	all, err := c.objects(ctx, http.MethodPost, "/v1/objects", question, len(keys), func(o resource.Object) resource.Object { return o })
	for _, o := range all {
		if err == nil && !slices.Contains(keys, o.Key) {
			return nil, fmt.Errorf("inquiry: the agent's answer: %s was not asked for", o.Key)
		}
	}
	return all, err
}

func (c *Client) objects(ctx context.Context, method, path string, question []byte, most int, keep func(resource.Object) resource.Object) ([]resource.Object, error) {
	var out []resource.Object
	seen, kept := map[resource.Key]bool{}, 0
	err := c.lines(ctx, method, path, question, func(line []byte) error {
		var o object
		if err := json.Unmarshal(line, &o); err != nil {
			return err
		}
		read, err := o.unpack()
		if err != nil {
			return err
		}
		if seen[read.Key] {
			return fmt.Errorf("%s is there twice", read.Key)
		}
		seen[read.Key] = true
		read = keep(read)
		if kept += size(read); kept > c.limits.kept || len(out) == most {
			return errors.New("it has more objects than can be")
		}
		out = append(out, read)
		return nil
	})
	return out, err
}

// List implements Letters.
func (c *Client) List(ctx context.Context) (out []ledger.Letter, err error) {
	err = c.lines(ctx, http.MethodGet, "/v1/letters", nil, func(line []byte) error {
		var l ledger.Letter
		if err := json.Unmarshal(line, &l); err != nil {
			return err
		}
		if len(out) == ledger.MaxLetters {
			return errors.New("it has more letters than can be")
		}
		l.Event = nil
		out = append(out, tidy(l))
		return nil
	})
	return out, err
}

// Get implements Letters.
func (c *Client) Get(ctx context.Context, id string) (l ledger.Letter, err error) {
	err = c.one(ctx, http.MethodGet, "/v1/letters/"+url.PathEscape(id), nil, &l)
	return tidy(l), err
}

// Retry implements Letters.
func (c *Client) Retry(ctx context.Context, id string) error {
	return c.one(ctx, http.MethodPost, "/v1/letters/"+url.PathEscape(id)+"/retry", []byte("{}"), &struct{}{})
}

// Drop implements Letters.
func (c *Client) Drop(ctx context.Context, id string) error {
	return c.one(ctx, http.MethodPost, "/v1/letters/"+url.PathEscape(id)+"/drop", []byte("{}"), &struct{}{})
}

// tidy returns a letter whose texts are as long as ours are.
func tidy(l ledger.Letter) ledger.Letter {
	l.ID, l.Key, l.Cause, l.Reason = short(l.ID), short(l.Key), ledger.Cause(short(string(l.Cause))), short(l.Reason)
	return l
}

// short returns a text of an agent's, cut to what one may take.
func short(text string) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// one asks for one value, in at most maxLine bytes.
func (c *Client) one(ctx context.Context, method, path string, question []byte, to any) error {
	got := false
	err := c.lines(ctx, method, path, question, func(line []byte) error {
		if got {
			return errors.New("it says more than it was asked")
		}
		got = true
		return json.Unmarshal(line, to)
	})
	if err == nil && !got {
		err = errors.New("inquiry: the agent has answered nothing")
	}
	return err
}

// lines asks, and calls f with each line of the answer.
func (c *Client) lines(ctx context.Context, method, path string, question []byte, f func([]byte) error) error {
	fail := func(err error) error { return fmt.Errorf("inquiry: the agent's answer: %w", err) }
	request, err := http.NewRequestWithContext(ctx, method, "http://agent"+path, bytes.NewReader(question))
	if err != nil {
		return fmt.Errorf("inquiry: ask the agent: %w", err)
	}
	ask := c.http
	if path == clusterPath {
		ask = c.listen
	}
	response, err := ask.Do(request)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // its address says nothing
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("it hangs up: its program may be too old to answer")
		}
		return fmt.Errorf("inquiry: ask the agent: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return refused(response, missing(path))
	}
	lines := bufio.NewScanner(io.LimitReader(response.Body, maxAll))
	lines.Buffer(nil, maxLine)
	lines.Split(wholeLines)
	for lines.Scan() {
		if err := f(lines.Bytes()); err != nil {
			return fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		return fail(err)
	}
	return nil
}

// wholeLines is bufio.ScanLines for lines that must have an end.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	if atEOF && len(data) > 0 && bytes.IndexByte(data, '\n') < 0 {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return bufio.ScanLines(data, atEOF)
}

// missing returns what it means that there is nothing at a path; nil if that is said.
func missing(path string) error {
	switch {
	case strings.HasPrefix(path, "/v1/letters/"):
		return ErrNoLetter
	case path == clusterPath:
		return ErrNoCluster
	case strings.HasPrefix(path, storyPath):
		return ErrNoStory
	}
	return nil
}

// refused returns why the agent does not answer, or missing if it has nothing there.
func refused(r *http.Response, missing error) error {
	text, err := io.ReadAll(io.LimitReader(r.Body, maxText))
	if err != nil {
		return fmt.Errorf("inquiry: the agent's answer: %w", err)
	}
	if missing != nil && r.StatusCode == http.StatusNotFound {
		return fmt.Errorf("inquiry: ask the agent: %w", missing)
	}
	var f failure
	if json.Unmarshal(text, &f) != nil || f.Error == "" {
		f.Error = fmt.Sprintf("it answers with %d", r.StatusCode)
	}
	return fmt.Errorf("inquiry: ask the agent: %s", short(f.Error))
}
