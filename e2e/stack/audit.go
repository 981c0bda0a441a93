package stack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// auditPolicy logs what ServiceAccounts do, and nothing else: the servers of
// the stack itself run as the administrator.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

// An AuditRecord is one request of a ServiceAccount, as the API server saw it.
type AuditRecord struct {
	User        string // system:serviceaccount:<namespace>:<name>
	Verb        string // as in RBAC rules: get, list, watch, create, ...
	Group       string // empty for the core group
	Resource    string // empty for a URL that is no resource
	Subresource string
	Namespace   string
	Name        string
	URI         string
	Code        int // of the HTTP response; 403 is a refusal by RBAC
}

// An auditEvent is the part of an audit.k8s.io/v1 Event that is read.
type auditEvent struct {
	AuditID    string `json:"auditID"`
	RequestURI string `json:"requestURI"`
	Verb       string `json:"verb"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// Audit returns the requests of all ServiceAccounts since the cluster was
// started, in the order of their answers. A watch is there from its start on.
func (c *Cluster) Audit() ([]AuditRecord, error) {
	data, err := os.ReadFile(c.file("audit.log"))
	if err != nil {
		return nil, fmt.Errorf("stack: read the audit log of %s: %w", c.cfg.Name, err)
	}
	records, err := parseAudit(data)
	if err != nil {
		return nil, fmt.Errorf("stack: read the audit log of %s: %w", c.cfg.Name, err)
	}
	return records, nil
}

// parseAudit reads one event per line. A watch is logged when it starts and
// when it ends, under one id; the later event replaces the earlier one.
func parseAudit(data []byte) ([]AuditRecord, error) {
	// The last line may still be in the making.
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	var records []AuditRecord
	index := map[string]int{}
	for line := range bytes.Lines(data) {
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, err
		}
		if at, ok := index[event.AuditID]; ok {
			records[at] = event.record()
			continue
		}
		index[event.AuditID] = len(records)
		records = append(records, event.record())
	}
	return records, nil
}

func (e auditEvent) record() AuditRecord {
	return AuditRecord{
		User:        e.User.Username,
		Verb:        e.Verb,
		Group:       e.ObjectRef.APIGroup,
		Resource:    e.ObjectRef.Resource,
		Subresource: e.ObjectRef.Subresource,
		Namespace:   e.ObjectRef.Namespace,
		Name:        e.ObjectRef.Name,
		URI:         e.RequestURI,
		Code:        e.ResponseStatus.Code,
	}
}
