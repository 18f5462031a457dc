// Wharf's page side of MCP Apps 2026-01-26; docs/apps.md has its API.
const host = window.parent, pending = new Map(), UI = "ui/notifications/";
let handlers = null, lastId = 0;

const post = (message) => host.postMessage({ jsonrpc: "2.0", ...message }, "*");
const notify = (method, params = {}) => post({ method, params });
const request = (method, params, target = "") => new Promise((resolve, reject) => {
	if (!handlers) throw Error(`wharf: ${method} before wharf.connect(…)`);
	pending.set(++lastId, ({ result, error }) => {
		if (!error) return resolve(result);
		const text = `wharf: ${method} ${target} failed: ${error.message} (${error.code})`;
		reject(Object.assign(Error(text), { code: error.code }));
	});
	post({ id: lastId, method, params });
});

function applyContext(change = {}) {
	Object.assign(wharf.context, change);
	const { theme, styles } = change, root = document.documentElement;
	if (theme) root.dataset.theme = root.style.colorScheme = theme;
	for (const [name, value] of Object.entries(styles?.variables ?? {})) root.style.setProperty(name, value ?? "");
}

// Handler of each message, the field that it receives (or all), and that field's default.
const HANDLERS = {
	[UI + "tool-input-partial"]: ["onPartialInput", "arguments", {}],
	[UI + "tool-input"]: ["onInput", "arguments", {}],
	[UI + "tool-result"]: ["onResult"],
	[UI + "tool-cancelled"]: ["onCancelled", "reason"],
	[UI + "host-context-changed"]: ["onContext"],
	"ui/resource-teardown": ["onTeardown", "reason"],
	ping: ["onPing"],
};

addEventListener("message", async ({ source, data }) => {
	if (source !== host || !handlers || data?.jsonrpc !== "2.0") return;
	const { id, method, params = {} } = data;
	if (!method) return pending.get(id)?.(data), pending.delete(id);
	const [name, field, missing] = HANDLERS[method] ?? [];
	let reply = { result: {} };
	try {
		if (!name) reply = { error: { code: -32601, message: `the app has no ${method}` } };
		if (name === "onContext") applyContext(params);
		await handlers[name]?.(field ? params[field] ?? missing : params);
	} catch (error) {
		console.error(`wharf: ${name} failed:`, error);
		reply = { error: { code: -32000, message: String(error) } };
	}
	if (id !== undefined) post({ id, ...reply });
});

function reportSize() {
	const root = document.documentElement;
	let last;
	new ResizeObserver(() => {
		const width = root.offsetWidth, height = root.offsetHeight;
		if (last !== (last = `${width} ${height}`)) notify(UI + "size-changed", { width, height });
	}).observe(root);
}

const wharf = globalThis.wharf = {
	context: {},
	async connect({ name, version = "1.0.0", displayModes = ["inline"], autoResize = true, ...on }) {
		if (host === window) throw Error("wharf: this page is not in the frame of a host");
		handlers = on;
		const late = () => console.error("wharf: no reply to ui/initialize in 10 s: is this a host of MCP Apps?");
		const timer = setTimeout(late, 1e4);
		const it = await request("ui/initialize", {
			appInfo: { name, version },
			appCapabilities: { availableDisplayModes: displayModes },
			protocolVersion: "2026-01-26",
		}).finally(() => clearTimeout(timer));
		wharf.host = { ...it.hostInfo, capabilities: it.hostCapabilities };
		applyContext(it.hostContext);
		notify(UI + "initialized");
		if (autoResize) reportSize();
		return wharf;
	},
	callTool: (name, args = {}) => request("tools/call", { name, arguments: args }, name),
	readResource: (uri) => request("resources/read", { uri }, uri),
	sendMessage: (text) => request("ui/message", { role: "user", content: [{ type: "text", text }] }),
	openLink: (url) => request("ui/open-link", { url }, url),
	updateModelContext: (context) => request("ui/update-model-context", context),
	async requestDisplayMode(mode) {
		const modes = wharf.context.availableDisplayModes ?? [];
		if (!modes.includes(mode)) throw Error(`wharf: no display mode ${mode}: the host has ${modes}`);
		return (await request("ui/request-display-mode", { mode })).mode;
	},
	log: (level, data) => notify("notifications/message", { level, data }),
};
