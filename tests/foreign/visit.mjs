// A browser that shows nothing: it keeps cookies, and follows redirects for as long as they stay at the first host.

export async function visit(start) {
    const { origin } = new URL(start);
    const cookies = new Map();
    let url = new URL(start);
    for (let hops = 0; hops < 10; hops += 1) {
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        const response = await fetch(url, { redirect: 'manual', headers: { cookie } });
        for (const line of response.headers.getSetCookie()) {
            const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
            cookies.set(name, value);
        }
        const location = response.headers.get('location');
        if (!location) throw new Error(`${url} answered ${response.status}: ${await response.text()}`);
        url = new URL(location, url);
        if (url.origin !== origin) return url;
    }
    throw new Error(`${start} redirects without end`);
}
