import { defineConfig } from 'vitest/config';

export default defineConfig({
  base: '/dashboard/',
  build: {
    target: 'es2022',
    // The page's policy allows no data: scripts or fonts; nothing is worth inlining.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  // `npm run dev` beside a `receipts up`.
  server: { proxy: { '/api': process.env.RECEIPTS_ANALYTICS ?? 'http://127.0.0.1:8080' } },
  test: {
    projects: [
      { test: { name: 'unit', include: ['src/**/*.test.ts', 'tests/unit/**/*.test.ts'] } },
      {
        test: {
          name: 'browser',
          include: ['tests/browser/**/*.test.ts'],
          exclude: ['tests/browser/screenshots.test.ts'],
          globalSetup: 'tests/browser/receipts.ts',
          testTimeout: 180_000,
          hookTimeout: 180_000,
          expect: { poll: { timeout: 60_000 } },
          poolOptions: { forks: { singleFork: true } },
        },
      },
      { test: { name: 'screenshots', include: ['tests/browser/screenshots.test.ts'], testTimeout: 300_000 } },
    ],
  },
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
});
