package fault

// Token has a process's token expire: the API server takes none of its calls (401), until it has another one. Watches
// under way go on, since who calls is asked when a call begins.
//
// On a real cluster: a bound service-account token that the kubelet could not renew or the process did not read
// again; a kubeconfig's certificate or OIDC token that ran out; a signing key that was rotated.
type Token struct {
	Client string
	Span
}

// Kind implements Fault.
func (t *Token) Kind() string { return "token" }

// String implements Fault.
func (t *Token) String() string {
	l := line{kind: t.Kind()}
	l.text("client", t.Client)
	t.print(&l)
	return l.String()
}

func parseToken(f *fields) (Fault, error) {
	t := &Token{}
	for _, err := range []error{f.word("client", &t.Client), f.span(&t.Span)} {
		if err != nil {
			return nil, err
		}
	}
	if t.Client == "" {
		return nil, f.errorAt(nil, "token needs client: the process whose token expires, or operator")
	}
	return t, nil
}

type tokenRule struct {
	spanRule
	*Token
}

func (t *Token) rule(b base) rule { return &tokenRule{newSpanRule(b, t.Span), t} }

func (r *tokenRule) arrive(c Call, v *Verdict) {
	if !r.arrived(c, v.Ticket) || !matchClient(r.Client, c.Client, r.m.operator) || v.Refusal != nil {
		return
	}
	v.Refusal = (&Answer{Code: "401"}).refuse(c)
	r.strike(&v.Rules)
}

func (r *tokenRule) report() []Unmatched { return r.unmatched("client", r.Client) }
