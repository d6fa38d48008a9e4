package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Hooks is the handler of the webhooks that sequences configure: both servers call it, and what it is asked shows in
// their answers. The path says what a webhook does: /validate/… and /mutate/… are admission webhooks, which let pass,
// refuse, change or fail as their last part says, /convert/… converts custom resources.
//
// An object named probe is refused by the first webhook of the half that probe-validate or probe-mutate names, and
// passes the other: so one can wait until a configuration is in force.
func Hooks() http.Handler {
	mux := http.NewServeMux()
	for _, half := range []string{"validate", "mutate"} {
		mux.HandleFunc("/"+half+"/{does}", func(w http.ResponseWriter, r *http.Request) { admit(w, r, half) })
	}
	mux.HandleFunc("/convert/{does}", convert)
	return mux
}

// tree is decoded JSON.
type tree = map[string]any

// reviewed reads a review and gives it and its request.
func reviewed(w http.ResponseWriter, r *http.Request) (review, request tree, ok bool) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(body, &review)
	}
	request, _ = review["request"].(tree)
	if err != nil || request == nil {
		http.Error(w, fmt.Sprintf("no review: %v", err), http.StatusBadRequest)
		return nil, nil, false
	}
	return review, request, true
}

// admit answers for an admission webhook.
func admit(w http.ResponseWriter, r *http.Request, half string) {
	review, request, ok := reviewed(w, r)
	if !ok {
		return
	}
	response := tree{"uid": request["uid"], "allowed": true}
	answer := tree{"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}
	if name, _ := request["name"].(string); strings.HasPrefix(name, "probe-") {
		if name == "probe-"+half {
			response["allowed"], response["status"] = false, tree{"code": http.StatusForbidden, "message": "in force"}
		}
	} else if !behave(w, r, request, answer, response) {
		return
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = io.WriteString(w, asJSON(answer)) // fails when the server left
}

// behave makes the answer what the webhook's path says. It is false where there is none.
func behave(w http.ResponseWriter, r *http.Request, request, answer, response tree) bool {
	refuse := func(status any) { response["allowed"], response["status"] = false, status }
	switch r.PathValue("does") {
	case "tell": // all that it was asked
		delete(request, "uid")
		refuse(tree{"message": asJSON(request), "reason": "Forbidden"})
	case "refuse":
		refuse(nil)
	case "teapot":
		refuse(tree{"code": http.StatusTeapot, "message": "short and stout", "details": tree{"causes": []any{tree{"field": "spec", "message": "m", "reason": "r"}}}})
	case "success":
		refuse(tree{"code": http.StatusOK, "reason": "fine"})
	case "warn":
		response["warnings"] = []any{"careful", strings.Repeat("long ", 60), "", "a \"quoted\"\nline"}
		response["auditAnnotations"] = tree{"k": "v"}
	case "note":
		patch(request, response)
	case "badpatch":
		response["patchType"], response["patch"] = "JSONPatch", []byte(`[{"op":"remove","path":"/metadata/nothing"}]`)
	case "nopatch":
		response["patchType"], response["patch"] = "JSONPatch", []byte(`nonsense`)
	case "badtype":
		response["patchType"], response["patch"] = "MergePatch", []byte(`{}`)
	case "badfield":
		response["patchType"], response["patch"] = "JSONPatch", []byte(`[{"op":"add","path":"/metadata/labels","value":{"seq":7}}]`)
	case "rename":
		response["patchType"], response["patch"] = "JSONPatch", []byte(`[{"op":"add","path":"/metadata/labels/mutated","value":"yes"},{"op":"add","path":"/nonsense","value":1}]`)
	case "otheruid":
		response["uid"] = "00000000-1111-4000-8000-000000000000"
	case "otherversion":
		answer["apiVersion"] = "admission.k8s.io/v9"
	case "nothing":
		delete(answer, "response")
	case "error":
		http.Error(w, "out of order", http.StatusInternalServerError)
		return false
	case "text":
		_, _ = io.WriteString(w, "nonsense")
		return false
	case "slow": // its time limit is a second
		select {
		case <-r.Context().Done():
		case <-time.After(4 * time.Second):
		}
	}
	return true
}

// patch has the object say in an annotation what was asked about it, each time anew.
func patch(request, response tree) {
	object, ok := request["object"].(tree)
	if !ok {
		return // a deletion
	}
	metadata, _ := object["metadata"].(tree)
	notes, _ := metadata["annotations"].(tree)
	before, _ := notes["asked"].(string)
	if len(before) > 500 {
		return
	}
	user, _ := request["userInfo"].(tree)
	asked := fmt.Sprintf("%v %v %v/%v by %v;", request["operation"], asJSON(request["resource"]), request["name"], request["subResource"], user["username"])
	op := tree{"op": "add", "path": "/metadata/annotations/asked", "value": before + asked}
	if notes == nil {
		op = tree{"op": "add", "path": "/metadata/annotations", "value": tree{"asked": asked}}
	}
	response["patchType"], response["patch"] = "JSONPatch", []byte(asJSON([]any{op}))
}

// convert answers for a conversion webhook: versions differ in nothing but an annotation.
func convert(w http.ResponseWriter, r *http.Request) {
	review, request, ok := reviewed(w, r)
	if !ok {
		return
	}
	objects, _ := request["objects"].([]any)
	for _, o := range objects {
		obj, _ := o.(tree)
		obj["apiVersion"] = request["desiredAPIVersion"]
		if metadata, _ := obj["metadata"].(tree); metadata != nil && metadata["labels"] != nil {
			metadata["labels"].(tree)["converted"] = "yes"
		}
	}
	response := tree{"uid": request["uid"], "convertedObjects": objects, "result": tree{"status": "Success"}}
	switch r.PathValue("does") {
	case "refuse":
		response["result"] = tree{"status": "Failure", "message": "not today"}
	case "less":
		response["convertedObjects"] = []any{}
	case "error":
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", jsonType)
	_, _ = io.WriteString(w, asJSON(tree{"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}))
}
