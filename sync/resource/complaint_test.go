package resource

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestComplaint(t *testing.T) {
	for status, want := range map[string]string{
		"": "",
		`{"conditions":[{"type":"OrphanedResourceWarning","message":"one"}]}`:                                           "",
		`{"conditions":[{"type":"SyncWarning"},{"message":"project nosuch does not exist","type":"InvalidSpecError"}]}`: "InvalidSpecError: project nosuch does not exist",
		`{"conditions":{"type":"InvalidSpecError"}}`:                                                                    "",
	} {
		require.Equal(t, want, Complaint(status), status)
	}
}
