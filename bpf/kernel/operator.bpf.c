// Sees what an operator does at chosen instructions of its program: queues, reconciles, API calls.
#include "common.h"

#define MAX_DEPTH 64
#define STACK_BYTES (MAX_DEPTH * 8)
#define MASK 511 // of addresses' bytes: the deepest are cut so that the verifier can follow
#define TEXT 512
#define CHUNK 16384
#define MAX_CHUNKS 129 // 2 MiB, more than etcd stores of an object

// Registers in the order of Go's ABIInternal for amd64 (cmd/compile/abi-internal.md), by number.
enum { NONE = 255 };

enum { CALL_NONE, CALL_REQUEST };

// What to read at a site; the loader fills these in. Register NONE: nothing.
struct site {
	u8 text_ptr[2]; // registers of one or two strings
	u8 text_len[2];
	u8 pointer; // register of a pointer to one or two string headers, in place of the above
	u8 strings; // how many lie there
	u8 named;   // 1: the receiver's first field is a string, its name
	u8 stack;   // 1: the caller's stack
	u8 arg[2];  // registers of two words
	u8 call;    // CALL_REQUEST: the second register is a *http.Request
	u8 status;  // 1: the first register is a *http.Response
};

enum { EVENT = 1, BODY = 2 };

struct event {
	u32 type; // EVENT
	u32 site;
	u64 ts; // CLOCK_MONOTONIC, nanoseconds
	u32 pid, tid;
	u64 goid;
	u64 g;      // address of the goroutine's descriptor, which names it where its number is not known
	u64 caller; // the word at the stack pointer: the return address
	u64 arg[2];
	u64 status;      // of a response; 0 for an error
	s64 body;        // length that the request claims to have, -1 unknown
	u64 body_read;   // how much of it follows in BODY records
	u64 receiver;    // the first register: the method's receiver at its entry
	u32 len[3];      // full lengths of the texts
	u32 stack_bytes; // addresses that follow
	u8 text[3][TEXT];
	u8 stack[MASK + 1];
	// Not sent: the registers by their number. The verifier lets no index into the context itself.
	u64 regs[16];
};

struct body {
	u32 type; // BODY
	u32 len;
	u64 ts; // of its event
	u32 pid;
	u32 off;
	u8 data[CHUNK];
};

const struct event *unused_event __attribute__((unused));
const struct body *unused_body __attribute__((unused));

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 256);
	__type(key, u32);
	__type(value, struct site);
} sites SEC(".maps");

// As many turns as send_part may take: only bpf_loop, which needs Linux 5.17, counts without a map.
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_CHUNKS);
	__type(key, u32);
	__type(value, u32);
} turns SEC(".maps");

SCRATCH(events, struct event)
SCRATCH(bodies, struct body)

static __always_inline void registers(struct event *e, struct pt_regs *c)
{
	e->regs[0] = c->ax;
	e->regs[1] = c->bx;
	e->regs[2] = c->cx;
	e->regs[3] = c->di;
	e->regs[4] = c->si;
	e->regs[5] = c->r8;
	e->regs[6] = c->r9;
	e->regs[7] = c->r10;
	e->regs[8] = c->r11;
}

static __always_inline u64 reg(struct event *e, u8 i)
{
	return e->regs[i & 15];
}

static __always_inline void text(struct event *e, u32 i, u64 ptr, u64 len)
{
	if (i > 2)
		return;
	e->len[i] = len > 0xffffffff ? 0xffffffff : len;
	if (len > TEXT - 1)
		len = TEXT - 1;
	bound(len);
	bpf_probe_read_user(e->text[i], len & (TEXT - 1), (void *)ptr);
}

static __always_inline void text_at(struct event *e, u32 i, u64 header)
{
	text(e, i, word(header), word(header + 8));
}

struct sending {
	struct body *part;
	u64 data, len, sent;
};

// send_part hands over the next part of a body; 1 ends the loop.
static long send_part(void *map, u32 *key, u32 *value, struct sending *s)
{
	struct body *b = s->part;
	u64 n = s->len - s->sent;
	if (n > CHUNK - 1)
		n = CHUNK - 1;
	bound(n);
	n &= CHUNK - 1;
	if (!b || n == 0 || bpf_probe_read_user(b->data, n, (void *)(s->data + s->sent)))
		return 1;
	b->off = s->sent;
	b->len = n;
	if (output(b, __builtin_offsetof(struct body, data) + n, LOST_BODIES))
		return 1;
	s->sent += n;
	return 0;
}

// send_body hands over what the request's body reads from, if that is memory: http.NewRequest wraps a
// bytes.Reader, a bytes.Buffer or a strings.Reader, which all begin with a pointer and a length, into
// io.NopCloser. Nothing else has the length that the request's ContentLength states.
static __always_inline u64 send_body(struct event *e, u64 request)
{
	e->body = word(request + 88);
	if (e->body <= 0)
		return 0;
	u64 reader = word(word(request + 72) + 8);
	struct sending s = {.data = word(reader), .len = word(reader + 8)};
	if (s.len != (u64)e->body)
		return 0;
	struct bodies_slot *slot = take_bodies();
	if (!slot) {
		count(LOST_BODIES);
		return 0;
	}
	s.part = &slot->data;
	s.part->type = BODY;
	s.part->ts = e->ts;
	s.part->pid = e->pid;
	bpf_for_each_map_elem(&turns, send_part, &s, 0); // so that the verifier follows one turn, not each
	give(slot);
	return s.sent;
}

// read_request reads method, path, query and body of a http.Request.
static __always_inline void read_request(struct event *e, struct target *t, u64 request)
{
	u64 url = word(request + 16);
	text_at(e, 0, request);
	text_at(e, 1, url + 56);
	if (t->known)
		text_at(e, 2, url + t->url_query);
	e->body_read = send_body(e, request);
}

static __always_inline void read_site(struct pt_regs *ctx, struct event *e, struct site *s, struct target *t)
{
	// The scratch holds an earlier event's words; texts count only as far as their length.
	e->len[0] = e->len[1] = e->len[2] = 0;
	e->arg[0] = e->arg[1] = e->status = e->goid = e->body_read = 0;
	e->body = 0;
	registers(e, ctx);
	e->g = ctx->r14; // ABIInternal keeps the goroutine there
	if (t->known)
		e->goid = word(e->g + t->g_id);
	e->caller = word(ctx->sp);
	e->receiver = ctx->ax;
	for (int i = 0; i < 2; i++) {
		if (s->arg[i] != NONE)
			e->arg[i] = reg(e, s->arg[i]);
		if (s->pointer != NONE) {
			if (i < s->strings)
				text_at(e, i, reg(e, s->pointer) + 16 * i);
		} else if (s->text_ptr[i] != NONE) {
			text(e, i, reg(e, s->text_ptr[i]), reg(e, s->text_len[i]));
		}
	}
	if (s->named)
		text_at(e, 2, ctx->ax);
	if (s->call == CALL_REQUEST)
		read_request(e, t, ctx->bx);
	if (s->status && ctx->ax)
		e->status = word(ctx->ax + 16);
}

SEC("uprobe.multi")
int at_site(struct pt_regs *ctx)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 pid = id >> 32, number = (u32)bpf_get_attach_cookie(ctx);
	struct target *t = bpf_map_lookup_elem(&targets, &pid);
	if (!t)
		return 0;
	struct site *s = bpf_map_lookup_elem(&sites, &number);
	if (!s)
		return 0;
	count(TAKEN);
	struct events_slot *slot = take_events();
	if (!slot) {
		count(LOST);
		return 0;
	}
	struct event *e = &slot->data;
	e->type = EVENT;
	e->site = number;
	e->ts = bpf_ktime_get_ns();
	e->pid = pid;
	e->tid = (u32)id;
	read_site(ctx, e, s, t);
	u64 depth = 0;
	if (s->stack) {
		long n = bpf_get_stack(ctx, e->stack, STACK_BYTES - 8, BPF_F_USER_STACK);
		depth = n > 0 ? (u64)n & MASK : 0;
	}
	e->stack_bytes = depth;
	output(e, __builtin_offsetof(struct event, stack) + depth, LOST);
	give(slot);
	return 0;
}
