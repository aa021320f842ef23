import { describe, expect, it } from 'vitest';
import { csv, FileFault, readContent } from './contentFile';

const OWN = [{ domain: 'news.example', includeSubdomains: true }, { domain: 'alone.example' }];
const read = (text: string) => readContent(text, OWN);
const A = 'https://news.example/a';

describe('CSV', () => {
  it('keeps quotes, line breaks and separators within cells', () => {
    const text = 'a,"b ""c"", d",\r\n"two\nlines",e\n\n  \nlast';
    expect(csv(text, ',')).toEqual([
      { line: 1, cells: ['a', 'b "c", d', ''] },
      { line: 2, cells: ['two\nlines', 'e'] },
      { line: 6, cells: ['last'] },
    ]);
  });

  it('is read by its columns, whatever else there is', () => {
    const text = `\uFEFFTitle;Views;Link;Authors\n"One; two";12;${A};Ada | Bo\n;3;https://www.news.example/b;\n`;
    expect(read(text)).toEqual({
      entries: [
        { line: 2, url: A, title: 'One; two', authors: ['Ada', 'Bo'] },
        { line: 3, url: 'https://www.news.example/b' },
      ],
      refused: [],
    });
    expect(() => read('name,views\na,b')).toThrow(/no column “url”/);
  });

  it('may be addresses alone', () => {
    expect(read(`${A}\nhttps://alone.example/x\n`).entries.map(({ url }) => url)).toEqual([
      A,
      'https://alone.example/x',
    ]);
  });
});

describe('a sitemap', () => {
  const urlset = (urls: string) => `<?xml version="1.0"?>\n<urlset xmlns="x" xmlns:news="y">${urls}</urlset>\n`;

  it('gives addresses, and the titles of news alone', () => {
    const image =
      '<image:image><image:loc>https://cdn.example/i</image:loc><image:title>An image</image:title></image:image>';
    const urls = [
      `<url>${image}<loc> ${A}?x=1&amp;y=&#65;&#x42; </loc></url>`,
      `<!-- <url><loc>${A}0</loc></url> --><url a="b"><loc><![CDATA[${A}1]]></loc><news:news><news:title>A &lt;b&gt;</news:title></news:news></url>`,
      '<url/>',
    ];
    expect(read(urlset(urls.join('\n')))).toEqual({
      entries: [
        { line: 1, url: `${A}?x=1&y=AB` },
        { line: 2, url: `${A}1`, title: 'A <b>' },
      ],
      refused: [{ line: 3, text: '', why: 'it has no url' }],
    });
  });

  it('may be an index, cut off, or something else', () => {
    const index = `<sitemapindex><sitemap><loc>${A}.xml</loc></sitemap></sitemapindex>`;
    expect(() => read(index)).toThrow(`${A}.xml`);
    expect(() => read(urlset('').slice(0, -9))).toThrow(/end is missing/);
    expect(() => read('<html></html>')).toThrow(/isn’t a sitemap/);
  });
});

it('refuses, with the line and why, what the API would', () => {
  const lines = [
    { url: A },
    { url: A, title: 'again' },
    { url: 'https://other.example/' },
    { url: 'https://www.alone.example/' },
    { url: 'ftp://news.example/' },
    { title: 'no address' },
    { url: `${A}1`, title: ' ' },
    { url: `${A}2`, title: 'x'.repeat(1001) },
    { url: `${A}3`, entryId: 'no' },
    { url: `${A}4`, authors: 'Ada' },
    { url: `${A}5`, section: 'sport' },
  ];
  const text = `${lines.map((line) => JSON.stringify(line)).join('\n')}\n{broken\n[1]\n`;
  const { entries, refused } = read(text);
  expect(entries).toEqual([{ line: 1, url: A }]);
  expect(refused.map(({ line, why }) => `${line} ${why}`)).toEqual([
    '2 the same as line 1',
    '3 other.example isn’t a domain of yours',
    '4 www.alone.example isn’t a domain of yours',
    '5 its url isn’t an address with http:// or https://',
    '6 it has no url',
    '7 its title is empty',
    '8 its title is longer than 1000 characters',
    '9 its entryId isn’t a UUID',
    '10 its authors aren’t a list of 100 names at most',
    '11 it has “section”: only url, title, entryId, authors are known',
    '12 it isn’t JSON',
    '13 it isn’t a JSON object',
  ]);
});

it('says what a file is that it doesn’t read', () => {
  expect(() => read(' \n')).toThrow(FileFault);
  expect(() => read('[{"url": "x"}]')).toThrow(/one object a line/);
  expect(() => read(`url\n${'https://news.example/\n'.repeat(50_001)}`)).toThrow(/more than 50000/);
});
