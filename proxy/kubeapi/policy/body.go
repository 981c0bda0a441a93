package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubejson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// bound is how many bytes a body may have that is read for a decision: what an API server
// itself takes.
const bound = 3 << 20

// What is wrong with a body that cannot be decided on.
var (
	errTooLarge = fmt.Errorf("the body is larger than %d bytes", bound)
	errType     = errors.New("the body is neither JSON nor a patch of a type that can be read; send application/json")
	errBody     = errors.New("the body is not what its type says")
	errOther    = errors.New("the object is another one than the body says, or has changed since")
)

// A document is a body in JSON, read into what is written anew: servers that read names
// without case, or a name that is there twice, would find in it only what was decided on.
type document struct {
	kind  string // the media type
	value any
}

// read reads the body of a request.
func read(r *http.Request) (document, error) {
	d := document{kind: mediaType(r)}
	if len(r.Header.Values("Content-Type")) > 1 || r.Header.Get("Content-Encoding") != "" {
		return d, errType
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, bound+1))
	if err != nil {
		return d, fmt.Errorf("policy: read the body: %w", err)
	}
	if len(text) > bound {
		return d, errTooLarge
	}
	switch d.kind {
	case "application/json", string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.JSONPatchType):
	case string(types.ApplyYAMLPatchType):
		if text, err = yaml.ToJSON(text); err != nil {
			return d, errBody
		}
	default:
		if len(text) > 0 {
			return d, errType
		}
	}
	return d, d.parse(text)
}

// mediaType returns the type of a body: JSON if nothing is said.
func mediaType(r *http.Request) string {
	typ := r.Header.Get("Content-Type")
	if typ == "" {
		return "application/json"
	}
	kind, _, err := mime.ParseMediaType(typ)
	if err != nil {
		return ""
	}
	return kind
}

func (d *document) parse(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&d.value); err != nil {
		return errBody
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errBody
	}
	return nil
}

// write makes the document the body of a request.
func (d document) write(r *http.Request) error {
	text, err := json.Marshal(d.value)
	if err != nil {
		return fmt.Errorf("policy: write the body: %w", err)
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(text)), int64(len(text)), nil
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	r.Header.Set("Content-Type", d.kind)
	return nil
}

// metadata returns that of the object that a document is, in a namespace. Its fields are those
// that an API server finds: one whose name is in another case is none.
func (d document) metadata(namespace string) (*metav1.PartialObjectMetadata, error) {
	object, ok := d.value.(map[string]any)
	if !ok {
		return nil, errBody
	}
	text, err := json.Marshal(map[string]any{"metadata": object["metadata"]})
	if err != nil {
		return nil, errBody
	}
	var o metav1.PartialObjectMetadata
	if err := kubejson.Unmarshal(text, &o); err != nil {
		return nil, errBody
	}
	o.Namespace = namespace
	return &o, nil
}

// require has a patch fail unless the object has a UID and, if it is not empty, a version.
func (d *document) require(uid types.UID, version string) error {
	if d.kind == string(types.JSONPatchType) {
		steps, ok := d.value.([]any)
		if !ok {
			return errBody
		}
		d.value = append([]any{map[string]any{"op": "test", "path": "/metadata/uid", "value": string(uid)}}, steps...)
		return nil
	}
	return d.in("metadata", map[string]string{"uid": string(uid), "resourceVersion": version})
}

// deleting has the options of a deletion fail unless the object has a UID. Without a body the
// query is what the options are.
func (d *document) deleting(query url.Values, uid types.UID) error {
	d.kind = "application/json"
	if d.value == nil {
		var o metav1.DeleteOptions
		if err := metav1.Convert_url_Values_To_v1_DeleteOptions(&query, &o, nil); err != nil {
			return errBody
		}
		o.Kind, o.APIVersion = "DeleteOptions", "v1"
		text, err := json.Marshal(o)
		if err != nil {
			return errBody
		}
		if err := d.parse(text); err != nil {
			return err
		}
	}
	return d.in("preconditions", map[string]string{"uid": string(uid)})
}

// in puts fields that are not empty into a part of an object, unless they say something else.
func (d *document) in(part string, fields map[string]string) error {
	object, ok := d.value.(map[string]any)
	if !ok {
		return errBody
	}
	inner, ok := object[part].(map[string]any)
	if object[part] != nil && !ok {
		return errBody
	}
	if inner == nil {
		inner = map[string]any{}
	}
	for field, value := range fields {
		if value == "" {
			continue
		}
		if said := inner[field]; said != nil && said != "" && said != value {
			return errOther
		}
		inner[field] = value
	}
	object[part] = inner
	return nil
}
