package wire

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// objects are texts that have members, or look as if they had.
var objects = []string{
	``, ` `, `null`, `[]`, `[{"a":1}]`, `"{}"`, `7`, `{}`, `{ }`, ` {}`, `{} `, `{}}`, `{{}}`, `{,}`,
	`{"spec":{"a":[1,{"b":"}"}],"c":"\\"},"status":"x","meta":null}`,
	`{"spec":1,"spec":2}`, `{"sp\u0065c":1}`, `{"spec" :1}`, `{"spec": 1}`, `{"spec":1 }`, `{"spec":1, "meta":2}`,
	`{"a":"\"},{\"","b":[[],[{}]],"":-1.5e3}`, `{"a":"` + "\x01" + `"}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":"b":1}`,
}

func TestMembersAreThoseThatADecoderFinds(t *testing.T) {
	for _, text := range objects {
		checkMembers(t, text)
	}
	_, ok := cut([]byte(`{"spec":{"a":[1,{"b":"}"}],"c":"\\"},"status":"x"}`))
	require.True(t, ok, "what Encode writes is cut where it stands")
}

func FuzzMembers(f *testing.F) {
	for _, text := range objects {
		f.Add(text)
	}
	f.Fuzz(checkMembers)
}

func checkMembers(t *testing.T, text string) {
	var want map[string]json.RawMessage
	failed := json.Unmarshal([]byte(text), &want)
	got, err := membersOf([]byte(text))
	if failed != nil {
		require.Error(t, err, text)
		return
	}
	require.NoError(t, err, text)
	require.Equal(t, len(want), len(got), text)
	for name, value := range want {
		require.Equal(t, string(value), string(got[name]), text)
	}
}
