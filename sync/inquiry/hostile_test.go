package inquiry_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/argocd-fabric/argocd-agent/sync/inquiry"
	"github.com/argocd-fabric/argocd-agent/sync/resource"
)

// lines answers every question with these lines.
func lines(write func(w io.Writer)) func(net.Conn) {
	return over(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { write(w) }))
}

// raw answers with what is no HTTP, after the question.
func raw(text string) func(net.Conn) {
	return func(c net.Conn) {
		question(c)
		_, _ = io.WriteString(c, text)
		_ = c.Close()
	}
}

// question reads a question that has no body.
func question(c net.Conn) {
	for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != ""; {
	}
}

// An agent that answers whatever it likes costs its principal a bounded time and memory,
// and gets an error.
func TestAHostileAgentIsAnError(t *testing.T) {
	const object = `{"kind":"Application","name":"%s","uid":"1","parts":{"spec":"%s"}}` + "\n"
	for name, c := range map[string]struct {
		serve func(net.Conn)
		why   string
	}{
		"closes":           {raw(""), "it hangs up"},
		"no HTTP":          {raw("NATS/1.0 hello\r\n\r\n"), "malformed HTTP"},
		"endless header":   {raw("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 1<<20)), "header"},
		"silence":          {func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }, "timeout"},
		"cut short":        {raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"), "unexpected EOF"},
		"stops":            {stalls, "timeout"},
		"elsewhere":        {over(http.RedirectHandler("/v1/objects", http.StatusFound)), "answers with 302"},
		"a page":           {lines(func(w io.Writer) { fmt.Fprintln(w, "<html>") }), "invalid character"},
		"a number":         {lines(func(w io.Writer) { fmt.Fprintln(w, 7) }), "cannot unmarshal"},
		"no object":        {lines(func(w io.Writer) { fmt.Fprintln(w, "null") }), "kind"},
		"no name":          {lines(func(w io.Writer) { fmt.Fprintf(w, object, "", "") }), "without name"},
		"another kind":     {lines(func(w io.Writer) { fmt.Fprintln(w, `{"kind":"Pod","name":"a","uid":"1"}`) }), `kind "Pod" is none`},
		"parts of no text": {lines(func(w io.Writer) { fmt.Fprintln(w, `{"kind":"Application","name":"a","uid":"1","parts":{"spec":{}}}`) }), "cannot unmarshal"},
		"a long name":      {lines(func(w io.Writer) { fmt.Fprintf(w, object, strings.Repeat("a", 1000), "") }), "a name that is none"},
		"twice the same": {lines(func(w io.Writer) {
			fmt.Fprintf(w, object, "a", "")
			fmt.Fprintf(w, object, "a", "")
		}), "is there twice"},
		"no end":      {lines(func(w io.Writer) { fmt.Fprint(w, strings.TrimSpace(object)) }), "unexpected EOF"},
		"a long line": {lines(func(w io.Writer) { fmt.Fprintf(w, object, "a", strings.Repeat("a", 9<<20)) }), "token too long"},
		"too much": {lines(func(w io.Writer) {
			for i := range 12 {
				fmt.Fprintf(w, object, fmt.Sprint("a", i), strings.Repeat("a", 100<<10))
			}
		}), "more objects than can be"},
		"too many": {lines(func(w io.Writer) {
			for i := range 101 {
				fmt.Fprintf(w, object, fmt.Sprint("a", i), "")
			}
		}), "more objects than can be"},
		"a long complaint": {over(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"`+strings.Repeat("a", 1<<20), http.StatusTeapot)
		})), "answers with 418"},
	} {
		t.Run(name, func(t *testing.T) {
			ask(t, c.serve, func(t *testing.T, client *inquiry.Client) {
				client.Limit(100, 1<<20)
				began := time.Now()
				_, err := client.Objects(t.Context(), true, same)
				require.ErrorContains(t, err, c.why)
				require.Less(t, len(err.Error()), 8<<10)
				require.LessOrEqual(t, time.Since(began), time.Minute)
			})
		})
	}
}

// stalls begins an answer, and says no more.
func stalls(c net.Conn) {
	question(c)
	_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
}

func TestAnAgentThatAnswersMoreThanItWasAsked(t *testing.T) {
	ask(t, lines(func(w io.Writer) { fmt.Fprintln(w, `{"kind":"Application","name":"b","uid":"1"}`) }), func(t *testing.T, c *inquiry.Client) {
		_, err := c.Whole(t.Context(), []resource.Key{app("a")})
		require.ErrorContains(t, err, "Application/b was not asked for")
	})
	ask(t, lines(func(w io.Writer) { fmt.Fprint(w, "{}\n{}\n") }), func(t *testing.T, c *inquiry.Client) {
		_, err := c.Standing(t.Context(), "")
		require.ErrorContains(t, err, "more than it was asked")
	})
	ask(t, lines(func(io.Writer) {}), func(t *testing.T, c *inquiry.Client) {
		_, err := c.Standing(t.Context(), "")
		require.ErrorContains(t, err, "has answered nothing")
	})
	ask(t, lines(func(w io.Writer) {
		for i := range 2000 {
			fmt.Fprintf(w, `{"id":"%d","reason":"%s"}`+"\n", i, strings.Repeat("\xff", 9000))
		}
	}), func(t *testing.T, c *inquiry.Client) {
		list, err := c.List(t.Context())
		require.ErrorContains(t, err, "more letters than can be")
		require.Len(t, list, 1000)
		require.LessOrEqual(t, len(list[0].Reason), 3*4<<10)
	})
}

// At most two callers read all objects at once: the next is told so.
func TestReadersAreBounded(t *testing.T) {
	reading, go2 := make(chan struct{}), make(chan struct{})
	config := (&agent{}).config()
	config.Objects = func(context.Context) ([]resource.Object, error) {
		reading <- struct{}{}
		<-go2
		return nil, nil
	}
	h := inquiry.Handler(config)
	ask(t, over(h), func(t *testing.T, c *inquiry.Client) {
		reading, go2 = make(chan struct{}), make(chan struct{})
		ended := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := c.Objects(t.Context(), true, same)
				ended <- err
			}()
			<-reading
		}
		_, err := c.Objects(t.Context(), true, same)
		require.ErrorContains(t, err, "others read the agent's objects now")
		close(go2)
		require.NoError(t, <-ended)
		require.NoError(t, <-ended)
		synctest.Wait()
	})
}
