package redis

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValuesAreReadAsTheyAre(t *testing.T) {
	for _, text := range []string{
		"+OK\r\n", "-ERR no\r\n", ":-2\r\n", "$-1\r\n", "_\r\n", "#t\r\n", ",1.5\r\n", "(12345678901234567890\r\n",
		"$0\r\n\r\n", "$4\r\na\r\nb\r\n", "=7\r\ntxt:abc\r\n", "*-1\r\n", "*0\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
		"%1\r\n+a\r\n:1\r\n", "~1\r\n:1\r\n", ">3\r\n+message\r\n+c\r\n$0\r\n\r\n",
	} {
		r := newReader(strings.NewReader(text+"+next\r\n"), 1<<10)
		value, err := r.value()
		require.NoError(t, err, "%q", text)
		require.Equal(t, text, string(value))
		value, err = r.value()
		require.NoError(t, err, "%q", text)
		require.Equal(t, "+next\r\n", string(value))
	}
}

// What is too large, or would be, is refused before it has arrived.
func TestWhatIsNotRead(t *testing.T) {
	for text, want := range map[string]error{
		"$2147483647\r\n":             errTooLarge,
		"$9223372036854775806\r\n":    errProtocol,
		"$-2\r\n":                     errProtocol,
		"$1024\r\n":                   errTooLarge,
		"*2147483647\r\n":             io.EOF,
		strings.Repeat("*1\r\n", 100): errTooLarge,
		"*400\r\n" + strings.Repeat(":1\r\n", 400): errTooLarge,
		"+" + strings.Repeat("a", 8<<10):           errTooLarge,
		"+a\n":                                     errProtocol,
		"\r\n":                                     errProtocol,
		"?1\r\n":                                   errProtocol,
		"|1\r\n+a\r\n+b\r\n:1\r\n":                 errProtocol,
		"$?\r\n":                                   errProtocol,
		"$3\r\nabcd\r\n":                           errProtocol,
		"$3\r\nab":                                 io.ErrUnexpectedEOF,
		"":                                         io.EOF,
	} {
		_, err := newReader(strings.NewReader(text), 1<<10).value()
		require.ErrorIs(t, err, want, "%.40q", text)
	}
	for text, want := range map[string]error{
		"PING\r\n":                       errProtocol,
		"*0\r\n":                         errProtocol,
		"*1\r\n:1\r\n":                   errProtocol,
		"*1\r\n$-1\r\n":                  errProtocol,
		"*1\r\n$2147483647\r\n":          errTooLarge,
		"*1\r\n$9223372036854775806\r\n": errProtocol,
		"*2\r\n$1\r\na\r\n":              io.ErrUnexpectedEOF,
		"*9\r\n" + strings.Repeat("$0\r\n\r\n", 9): errTooLarge, // which is little, and would take much
	} {
		_, err := newReader(strings.NewReader(text), 1<<10).command()
		require.ErrorIs(t, err, want, "%.40q", text)
	}
}

func TestTexts(t *testing.T) {
	require.Equal(t, [][]byte{[]byte("message"), []byte("c"), {}}, texts(version(2).message("", "c", "")))
	require.Equal(t, [][]byte{[]byte("pmessage"), []byte("*"), []byte("c"), []byte("p")}, texts(version(3).message("*", "c", "p")))
	require.Equal(t, [][]byte{[]byte("subscribe"), nil, []byte("1")}, texts([]byte("*3\r\n$9\r\nsubscribe\r\n$-1\r\n:1\r\n")))
	require.Nil(t, texts([]byte("*1\r\n*1\r\n:1\r\n")))
	require.Nil(t, texts([]byte("+PONG\r\n")))
}

// Whatever arrives is refused, or is passed on as it is and can be read again.
func FuzzReader(f *testing.F) {
	for _, text := range []string{"*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "%1\r\n+a\r\n:1\r\n", "$-1\r\n", "*1\r\n*1\r\n_\r\n", "$9223372036854775806\r\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if value, err := newReader(bytes.NewReader(text), 1<<12).value(); err == nil {
			require.True(t, bytes.HasPrefix(text, value))
			again, err := newReader(bytes.NewReader(value), 1<<12).value()
			require.NoError(t, err)
			require.Equal(t, value, again)
			_ = texts(value)
		}
		if args, err := newReader(bytes.NewReader(text), 1<<12).command(); err == nil {
			again, err := newReader(bytes.NewReader(asked(args)), 1<<12).command()
			require.NoError(t, err)
			require.Equal(t, args, again)
		}
	})
}
