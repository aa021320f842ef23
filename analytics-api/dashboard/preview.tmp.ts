import { readFileSync } from 'node:fs';
import base from '/work/main/analytics-api/dashboard/vite.config';

const at = JSON.parse(readFileSync('/tmp/e/held.json', 'utf8'));
const csp =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";
export default {
  ...base,
  root: '/work/main/analytics-api/dashboard',
  configFile: false,
  preview: {
    port: 4999,
    host: '127.0.0.1',
    proxy: { '/api': { target: at.analytics, changeOrigin: true } },
    headers: { 'content-security-policy': csp },
  },
};
