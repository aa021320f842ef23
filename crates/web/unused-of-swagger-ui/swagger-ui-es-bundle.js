// Left out: /docs loads swagger-ui-bundle.js.
