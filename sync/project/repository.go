package project

import "encoding/base64"

// OfRepository returns the project that a repository or repo-creds Secret is of, given the
// Secret's data with its values in base64; false if it is of none. It goes to the agents that
// the project concerns.
func OfRepository(data map[string]any) (project string, ok bool) {
	text, _ := data["project"].(string)
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(decoded) == 0 {
		return "", false
	}
	return string(decoded), true
}
