// Headless browser: it keeps cookies, follows redirects, and consents, until it reaches the redirect URI of the client.

export async function visit(start) {
    const end = new URL(start).searchParams.get('redirect_uri');
    const jars = new Map();
    let url = new URL(start);
    let form;
    for (let hops = 0; hops < 20; hops += 1) {
        if (url.origin + url.pathname === end) return url;
        const jar = jars.get(url.origin) ?? new Map();
        jars.set(url.origin, jar);
        const headers = { cookie: [...jar].map(([name, value]) => `${name}=${value}`).join('; ') };
        const sent = form && { method: 'POST', body: form };
        const response = await fetch(url, { redirect: 'manual', ...sent, headers: { ...headers, ...(sent && { origin: url.origin }) } });
        for (const line of response.headers.getSetCookie()) {
            const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
            jar.set(name, value);
        }
        const location = response.headers.get('location');
        const text = location ? '' : await response.text();
        const [, action, ticket] = /action="([^"]*)"><input [^>]*name=ticket value="([^"]*)"/.exec(text) ?? [];
        form = ticket && new URLSearchParams({ ticket, decision: 'allow' });
        const next = location ?? action ?? /<a href="([^"]*)"/.exec(text)?.[1].replaceAll('&amp;', '&');
        if (!next || !(response.ok || location)) throw new Error(`${url} answered ${response.status}: ${text}`);
        url = new URL(next, url);
    }
    throw new Error(`${start} leads nowhere`);
}
